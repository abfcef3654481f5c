/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before the kernel's test: its harness gives each test 30 seconds,
 * too few for a thousand devices in a guest on a busy machine.
 */
#include "kselftest_harness.h"

#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120
