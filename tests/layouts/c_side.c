// SPDX-License-Identifier: GPL-2.0
/* The driver's table, for a module without the driver. */
#include "../../drivers/android/helpers/layouts.c"
