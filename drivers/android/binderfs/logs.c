// SPDX-License-Identifier: GPL-2.0
/*
 * The log files: the state of processes, threads, nodes and transactions, as
 * text. Rust writes the text, record by record; this file has the files.
 *
 * They exist in binder_logs/ of each mount that has the option stats=global,
 * and in the directory binder/ of debugfs, for devices without binderfs. Both
 * have a directory proc/ with one file for each pid that has a device open: in
 * a mount, one of its own devices; in debugfs, any.
 *
 * A file refers to its contents by a number, never by a pointer. So it can be
 * read while a process ends and after that, when it is empty, and nothing waits
 * for a reader. An open file keeps its mount and the module.
 */

#include <linux/cleanup.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "rust_binderfs.h"

/* Files */

/* The place of a name here is the number of its log, also in Rust (logs/mod.rs). */
static const char * const binder_log_names[] = {
	"state",
	"state_hashed",
	"stats",
	"transaction_log",
	"failed_transaction_log",
	"transactions",
	"transactions_hashed",
};

/* The log of a pid has the number behind those. */
#define BINDER_LOG_PROCESS	ARRAY_SIZE(binder_log_names)

static void *binder_log_start(struct seq_file *seq, loff_t *position)
{
	int ret = rust_binder_log_seek(seq->private, *position);

	if (ret < 0)
		return ERR_PTR(ret);
	return ret ? seq : NULL;
}

static void *binder_log_next(struct seq_file *seq, void *record,
			     loff_t *position)
{
	++*position;
	return binder_log_start(seq, position);
}

static void binder_log_stop(struct seq_file *seq, void *record)
{
}

static int binder_log_show(struct seq_file *seq, void *record)
{
	return rust_binder_show_log(seq, seq->private);
}

static const struct seq_operations binder_log_records = {
	.start = binder_log_start,
	.next = binder_log_next,
	.stop = binder_log_stop,
	.show = binder_log_show,
};

/* The data of a file: its log, and for %BINDER_LOG_PROCESS the pid in the bits above. */
#define BINDER_LOG_BITS		4

static int binder_log_open(struct inode *inode, struct file *file)
{
	unsigned long data = (unsigned long)inode->i_private;
	void *reader = rust_binder_log_open(data & (BIT(BINDER_LOG_BITS) - 1),
					    data >> BINDER_LOG_BITS);
	int ret;

	if (!reader)
		return -ENOMEM;

	ret = seq_open(file, &binder_log_records);
	if (ret) {
		rust_binder_log_close(reader);
		return ret;
	}
	((struct seq_file *)file->private_data)->private = reader;
	return 0;
}

static int binder_log_release(struct inode *inode, struct file *file)
{
	struct seq_file *seq = file->private_data;

	rust_binder_log_close(seq->private);
	return seq_release(inode, file);
}

static const struct file_operations binder_log_fops = {
	.owner = THIS_MODULE,
	.open = binder_log_open,
	.read_iter = seq_read_iter,
	.splice_read = copy_splice_read,
	.llseek = seq_lseek,
	.release = binder_log_release,
};

static struct dentry *binder_log_add_file(const struct binder_log_dir *dir,
					  struct dentry *parent,
					  const char *name, unsigned int log,
					  pid_t pid)
{
	void *data = (void *)((unsigned long)pid << BINDER_LOG_BITS | log);

	if (!dir->in_debugfs)
		return rust_binderfs_add_file(parent, name, &binder_log_fops,
					      data);
	/*
	 * Not protected by debugfs, whose protection would make the end of a
	 * process wait for a reader: reading needs nothing that ends with the
	 * file.
	 */
	return debugfs_create_file_unsafe(name, 0444, parent, data,
					  &binder_log_fops);
}

/* Adds all files, and proc/. In debugfs there are those that can be made. */
static int binder_log_fill(struct binder_log_dir *dir, struct dentry *parent)
{
	struct dentry *entry;

	for (size_t log = 0; log < ARRAY_SIZE(binder_log_names); log++) {
		entry = binder_log_add_file(dir, parent, binder_log_names[log],
					    log, 0);
		if (IS_ERR(entry) && !dir->in_debugfs)
			return PTR_ERR(entry);
	}
	entry = dir->in_debugfs ? debugfs_create_dir("proc", parent) :
				  rust_binderfs_add_dir(parent, "proc");
	if (!IS_ERR(entry))
		dir->dentry = entry;
	return PTR_ERR_OR_ZERO(entry);
}

/* proc/, a directory with a file for each pid */

/* The devices that a pid has open, and their file. */
struct binder_log_pid {
	/* Guarded by the lock of the XArray. */
	unsigned int openings;

	/* An error if it could not be made. */
	struct dentry *file;
};

/* Counts an opening of a pid that is there. */
static bool binder_log_count(struct binder_log_dir *dir, pid_t pid)
{
	struct binder_log_pid *entry;

	guard(spinlock)(&dir->pids.xa_lock);
	entry = xa_load(&dir->pids, pid);
	if (entry)
		entry->openings++;
	return entry;
}

/*
 * A device is opened, whether or not its file can be made. An opening that there is no memory to
 * count is taken for one of the others when it ends, and the file goes with the last but one.
 */
static void binder_log_dir_opened(struct binder_log_dir *dir, pid_t pid)
{
	struct binder_log_pid *entry;
	char name[12];

	if (!dir->dentry || binder_log_count(dir, pid))
		return;

	entry = kzalloc_obj(*entry);
	if (!entry)
		return;
	entry->openings = 1;

	guard(mutex)(&dir->lock);
	if (binder_log_count(dir, pid) ||
	    xa_err(xa_store(&dir->pids, pid, entry, GFP_KERNEL))) {
		kfree(entry);
		return;
	}
	scnprintf(name, sizeof(name), "%d", pid);
	entry->file = binder_log_add_file(dir, dir->dentry, name,
					  BINDER_LOG_PROCESS, pid);
}

/*
 * A device is closed. A worker removes the file, because that takes the locks
 * that making one takes, and the closing task may get no CPU time. Each
 * directory has a worker, which waits for readers of the directory. It is one
 * of the kernel's workers, because the module's own do not wait for memory.
 */
static void binder_log_dir_closed(struct binder_log_dir *dir, pid_t pid)
{
	struct binder_log_pid *entry;

	scoped_guard(spinlock, &dir->pids.xa_lock) {
		entry = xa_load(&dir->pids, pid);
		if (!entry || !entry->openings || --entry->openings)
			return;
		__xa_set_mark(&dir->pids, pid, XA_MARK_0);
	}
	queue_work(system_dfl_wq, &dir->work);
}

/* Removes a pid that has closed its last device, unless it has opened one again. */
static void binder_log_dir_remove(struct binder_log_dir *dir, pid_t pid,
				  struct binder_log_pid *entry)
{
	guard(mutex)(&dir->lock);
	scoped_guard(spinlock, &dir->pids.xa_lock) {
		if (entry->openings) {
			__xa_clear_mark(&dir->pids, pid, XA_MARK_0);
			return;
		}
		__xa_erase(&dir->pids, pid);
	}
	if (dir->in_debugfs)
		debugfs_remove(entry->file);
	else if (!IS_ERR(entry->file))
		simple_recursive_removal(entry->file, NULL);
	kfree(entry);
}

static void binder_log_dir_work(struct work_struct *work)
{
	struct binder_log_dir *dir = container_of(work, struct binder_log_dir,
						  work);
	struct binder_log_pid *entry;
	unsigned long pid;

	xa_for_each_marked(&dir->pids, pid, entry, XA_MARK_0) {
		binder_log_dir_remove(dir, pid, entry);
		cond_resched();
	}
}

void rust_binder_log_dir_init(struct binder_log_dir *dir)
{
	mutex_init(&dir->lock);
	xa_init(&dir->pids);
	INIT_WORK(&dir->work, binder_log_dir_work);
}

/* binder_logs/ of a mount */

int rust_binderfs_add_logs(struct super_block *sb)
{
	struct dentry *parent = rust_binderfs_add_dir(sb->s_root, "binder_logs");

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	return binder_log_fill(&binderfs_mount(sb)->processes, parent);
}

/* The folder in debugfs, which is named as the filesystem type is */

static struct dentry *binder_debugfs;
static struct binder_log_dir binder_debugfs_processes;

void rust_binder_debugfs_init(void)
{
	rust_binder_log_dir_init(&binder_debugfs_processes);
	binder_debugfs_processes.in_debugfs = true;
	binder_debugfs = debugfs_create_dir(rust_binder_name(), NULL);
	if (!IS_ERR(binder_debugfs))
		binder_log_fill(&binder_debugfs_processes, binder_debugfs);
}

void rust_binder_debugfs_exit(void)
{
	flush_work(&binder_debugfs_processes.work);
	debugfs_remove(binder_debugfs);
}

/* The interface to the driver */

void rust_binder_logs_opened(const struct inode *device, pid_t pid)
{
	binder_log_dir_opened(&binder_debugfs_processes, pid);
	if (binderfs_is_device(device))
		binder_log_dir_opened(&binderfs_mount(device->i_sb)->processes,
				      pid);
}

void rust_binder_logs_closed(const struct inode *device, pid_t pid)
{
	if (binderfs_is_device(device))
		binder_log_dir_closed(&binderfs_mount(device->i_sb)->processes,
				      pid);
	binder_log_dir_closed(&binder_debugfs_processes, pid);
}
