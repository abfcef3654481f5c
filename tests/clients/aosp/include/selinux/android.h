/* SPDX-License-Identifier: GPL-2.0 */
/* The functions of libselinux that the service manager calls where no Android policy exists. */
#pragma once

#include <cstdlib>

static inline void freecon(char *context)
{
	std::free(context);
}
