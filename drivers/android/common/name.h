/* SPDX-License-Identifier: GPL-2.0 */
/* What the driver is called where another driver of Binder may be, too. */
#ifndef _RUST_BINDER_NAME_H
#define _RUST_BINDER_NAME_H

/*
 * The name of the filesystem type, of the folder of debugfs and of the netlink
 * family, which is short enough for each. Does not change once the module's
 * init runs.
 */
const char *rust_binder_name(void);

#endif /* _RUST_BINDER_NAME_H */
