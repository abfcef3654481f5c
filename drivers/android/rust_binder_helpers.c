// SPDX-License-Identifier: GPL-2.0
/*
 * The C code that rust/kernel/ needs. The sources are in rust/kernel_ext/, as
 * the helpers of the kernel crate are in rust/helpers/. They are compiled here,
 * because kbuild creates the objects of a module below the module's own folder.
 */
#include "../../rust/kernel_ext/debug.c"
#include "../../rust/kernel_ext/files.c"
#include "../../rust/kernel_ext/layouts.c"
#include "../../rust/kernel_ext/mm.c"
#include "../../rust/kernel_ext/sched.c"
#include "../../rust/kernel_ext/seq.c"
#include "../../rust/kernel_ext/tasks.c"
#include "../../rust/kernel_ext/time.c"
#include "../../rust/kernel_ext/user.c"
#include "../../rust/kernel_ext/worker.c"
