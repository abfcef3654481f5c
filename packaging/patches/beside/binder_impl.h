/* SPDX-License-Identifier: GPL-2.0 */
/* Selects one of two built-in drivers of Binder. */
#ifndef _BINDER_IMPL_H
#define _BINDER_IMPL_H

#include <linux/types.h>

#ifdef CONFIG_ANDROID_BINDER_IMPL
bool binder_impl_is_c(void);
bool binder_impl_is_rust(void);
#else
static inline bool binder_impl_is_c(void)
{
	return true;
}
#endif

#endif /* _BINDER_IMPL_H */
