/* SPDX-License-Identifier: GPL-2.0 */
/* What C files use of Linux 7.3. It stands in front of all headers. */
#ifndef _RUST_BINDER_BACKPORTS_H
#define _RUST_BINDER_BACKPORTS_H

#define BACKPORTS_FIRST_OF(none, flags, ...)	((none) | (flags))
#define BACKPORTS_FLAGS(flags...)	BACKPORTS_FIRST_OF(0, ##flags, GFP_KERNEL)
#define kmalloc_obj(object, flags...)	kmalloc(sizeof(object), BACKPORTS_FLAGS(flags))
#define kzalloc_obj(object, flags...)	kzalloc(sizeof(object), BACKPORTS_FLAGS(flags))

/* The reference of simple_start_creating() becomes that of the entry. */
#define d_make_persistent(dentry, inode)	d_instantiate(dentry, inode)
#define simple_done_creating(dentry)		inode_unlock(d_inode((dentry)->d_parent))
/* It drops those references. */
#define kill_anon_super				kill_litter_super

#endif
