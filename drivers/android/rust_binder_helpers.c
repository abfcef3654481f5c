// SPDX-License-Identifier: GPL-2.0
/*
 * What rust/kernel/ needs of C. It stands in rust/kernel_ext/, as the helpers of the
 * kernel crate stand in rust/helpers/, and is compiled here, since kbuild makes the
 * objects of a module below the module's own folder.
 */
#include "../../rust/kernel_ext/files.c"
#include "../../rust/kernel_ext/layouts.c"
#include "../../rust/kernel_ext/mm.c"
#include "../../rust/kernel_ext/sched.c"
#include "../../rust/kernel_ext/tasks.c"
