/* SPDX-License-Identifier: GPL-2.0 */
/* All that the service manager asks of libselinux where there is no Android policy to look into. */
#pragma once

#include <cstdlib>

static inline void freecon(char *context)
{
	std::free(context);
}
