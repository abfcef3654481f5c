// SPDX-License-Identifier: GPL-2.0
/*
 * Takes names in debugfs that the driver needs as long as it is loaded: that of its directory or,
 * with a driver that has it, those of the files of processes.
 */

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>

static unsigned int names_test_processes;
module_param_named(processes, names_test_processes, uint, 0444);
MODULE_PARM_DESC(processes, "The largest pid whose file is taken; 0 for the directory of all");

/* The directory, or one entry for each pid. */
static struct dentry **names_test_entries;

static void names_test_give_back(void)
{
	for (unsigned int i = 0; i <= names_test_processes; i++)
		debugfs_remove(names_test_entries[i]);
	kvfree(names_test_entries);
}

/* Has the names of all pids that have none of the driver's files yet. */
static int names_test_take_processes(void)
{
	struct dentry *driver = debugfs_lookup("binder", NULL);
	struct dentry *all = driver ? debugfs_lookup("proc", driver) : NULL;
	char name[12];

	for (unsigned int pid = 1; all && pid <= names_test_processes; pid++) {
		scnprintf(name, sizeof(name), "%u", pid);
		names_test_entries[pid] = debugfs_create_dir(name, all);
	}
	dput(all);
	dput(driver);
	return all ? 0 : -ENOENT;
}

static int __init names_test_init(void)
{
	int ret;

	names_test_entries = kvcalloc(names_test_processes + 1,
				      sizeof(*names_test_entries), GFP_KERNEL);
	if (!names_test_entries)
		return -ENOMEM;
	if (names_test_processes) {
		ret = names_test_take_processes();
	} else {
		names_test_entries[0] = debugfs_create_dir("binder", NULL);
		ret = PTR_ERR_OR_ZERO(names_test_entries[0]);
	}
	if (ret)
		names_test_give_back();
	return ret;
}

static void __exit names_test_exit(void)
{
	names_test_give_back();
}

module_init(names_test_init);
module_exit(names_test_exit);
MODULE_DESCRIPTION("Has names in debugfs that the driver needs");
MODULE_LICENSE("GPL");
