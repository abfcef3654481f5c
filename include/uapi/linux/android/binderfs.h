/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * A program creates another device in a binderfs mount: it opens the mount's
 * binder-control and issues BINDER_CTL_ADD.
 */
#ifndef _UAPI_LINUX_BINDERFS_H
#define _UAPI_LINUX_BINDERFS_H

#include <linux/android/binder.h>
#include <linux/ioctl.h>
#include <linux/types.h>

/* Bytes in a device's name, the closing NUL not counted. */
#define BINDERFS_MAX_NAME	255

/* The name goes in; the numbers of the device that was made come back. */
struct binderfs_device {
	char	name[BINDERFS_MAX_NAME + 1];
	__u32	major;
	__u32	minor;
};

#define BINDER_CTL_ADD	_IOWR('b', 1, struct binderfs_device)

#endif /* _UAPI_LINUX_BINDERFS_H */
