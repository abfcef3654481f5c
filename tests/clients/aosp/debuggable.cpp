// SPDX-License-Identifier: GPL-2.0
// Part of libbinder here: some tests skip themselves unless the system calls itself debuggable.

#include <android-base/properties.h>

__attribute__((constructor)) static void be_debuggable()
{
	android::base::SetProperty("ro.debuggable", "1");
	android::base::SetProperty("ro.build.type", "userdebug");
}
