/* SPDX-License-Identifier: GPL-2.0 */
/* Nothing of it is used without an Android policy. */
#pragma once
