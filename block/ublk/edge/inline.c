// SPDX-License-Identifier: GPL-2.0
/* What Rust cannot call: inline functions and macros, and structs without a
 * binding. Their contexts and errors are described where Rust declares them.
 */

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/cdev.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/idr.h>
#include <linux/io_uring/cmd.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <uapi/linux/ublk_cmd.h>

/* abi.rs */
static_assert(sizeof(struct ublksrv_io_desc) == 24);
static_assert(sizeof(struct ublksrv_ctrl_cmd) == 32);
static_assert(sizeof(struct ublksrv_io_cmd) == 16);
static_assert(sizeof(struct ublksrv_ctrl_dev_info) == 64);
static_assert(sizeof(struct ublk_params) == 152);

/* uring.rs */
static_assert(offsetof(struct io_uring_cmd, file) == 0);
static_assert(offsetof(struct io_uring_cmd, sqe) == 8);
static_assert(offsetof(struct io_uring_cmd, cmd_op) == 16);
static_assert(offsetof(struct io_uring_cmd, pdu) == 24);
static_assert(sizeof_field(struct io_uring_cmd, pdu) == 32);
static_assert(offsetof(struct io_kiocb, cmd) == 0);
static_assert(offsetof(struct io_uring_sqe, addr) == 16);
static_assert(offsetof(struct io_uring_sqe, cmd) == 48);
static_assert(sizeof(struct io_tw_req) == sizeof(void *));
static_assert(sizeof(io_tw_token_t) == 1);
static_assert(IO_URING_F_COMPLETE_DEFER == 1 << 0);
static_assert(IO_URING_F_UNLOCKED == 1 << 1);
static_assert(IO_URING_F_SQE128 == 1 << 8);
static_assert(IO_URING_F_CANCEL == 1 << 11);

static char *name = "ublk";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "what the names of all files begin with");

static unsigned int ublks_max = 64;
module_param(ublks_max, uint, 0644);
MODULE_PARM_DESC(ublks_max, "the most devices of users without CAP_SYS_ADMIN");

static dev_t region;
static struct class char_class;
static char class_name[32];
static struct workqueue_struct *works;
static DEFINE_IDA(numbers);

const char *ublk_rust_name(void)
{
	return name;
}

unsigned int ublk_rust_most_unprivileged(void)
{
	return READ_ONCE(ublks_max);
}

int ublk_rust_begin(void)
{
	int error;

	works = alloc_workqueue("ublk_rust", WQ_UNBOUND, 0);
	if (!works)
		return -ENOMEM;
	snprintf(class_name, sizeof(class_name), "%s-char", name);
	error = alloc_chrdev_region(&region, 0, 1U << MINORBITS, class_name);
	if (error)
		goto out_works;
	char_class.name = class_name;
	error = class_register(&char_class);
	if (error)
		goto out_region;
	return 0;

out_region:
	unregister_chrdev_region(region, 1U << MINORBITS);
out_works:
	destroy_workqueue(works);
	return error;
}

void ublk_rust_end(void)
{
	destroy_workqueue(works);
	class_unregister(&char_class);
	unregister_chrdev_region(region, 1U << MINORBITS);
	ida_destroy(&numbers);
}

struct workqueue_struct *ublk_rust_works(void)
{
	return works;
}

int ublk_rust_number(u32 wanted)
{
	int number;

	if (wanted == U32_MAX)
		return ida_alloc_max(&numbers, (1U << MINORBITS) - 1,
				     GFP_KERNEL);
	number = ida_alloc_range(&numbers, wanted, wanted, GFP_KERNEL);
	return number == -ENOSPC ? -EEXIST : number;
}

void ublk_rust_free_number(u32 number)
{
	ida_free(&numbers, number);
}

struct ublk_rust_node {
	struct device device;
	struct cdev cdev;
	void *owner;
	void (*gone)(void *owner);
};

static void node_release(struct device *device)
{
	struct ublk_rust_node *node =
		container_of(device, struct ublk_rust_node, device);

	node->gone(node->owner);
	kfree(node);
}

struct ublk_rust_node *
ublk_rust_node_add(u32 number, const struct file_operations *operations,
		   void *owner, void (*gone)(void *owner))
{
	struct ublk_rust_node *node = kzalloc(sizeof(*node), GFP_KERNEL);
	int error;

	if (!node) {
		gone(owner);
		return ERR_PTR(-ENOMEM);
	}
	node->owner = owner;
	node->gone = gone;
	device_initialize(&node->device);
	node->device.devt = MKDEV(MAJOR(region), number);
	node->device.class = &char_class;
	node->device.release = node_release;
	cdev_init(&node->cdev, operations);
	node->cdev.owner = THIS_MODULE;
	error = dev_set_name(&node->device, "%sc%u", name, number);
	if (!error)
		error = cdev_device_add(&node->cdev, &node->device);
	if (error) {
		put_device(&node->device);
		return ERR_PTR(error);
	}
	return node;
}

void ublk_rust_node_remove(struct ublk_rust_node *node)
{
	cdev_device_del(&node->cdev, &node->device);
	put_device(&node->device);
}

void *ublk_rust_node_owner(struct inode *inode)
{
	return container_of(inode->i_cdev, struct ublk_rust_node, cdev)->owner;
}

u32 ublk_rust_file_major(void)
{
	return MAJOR(region);
}

u32 ublk_rust_disk_number(struct gendisk *disk, bool is_major)
{
	return is_major ? MAJOR(disk_devt(disk)) : MINOR(disk_devt(disk));
}

int ublk_rust_check_path(const char *name, u32 number, int mask)
{
	struct path path;
	struct kstat stat;
	int error;

	error = kern_path(name, LOOKUP_FOLLOW, &path);
	if (error)
		return error;
	error = vfs_getattr(&path, &stat, STATX_TYPE, AT_STATX_SYNC_AS_STAT);
	if (!error && (!S_ISCHR(stat.mode) ||
		       stat.rdev != MKDEV(MAJOR(region), number)))
		error = -EPERM;
	if (!error)
		error = inode_permission(mnt_idmap(path.mnt),
					 d_backing_inode(path.dentry), mask);
	path_put(&path);
	return error;
}

void ublk_rust_ids(u32 *uid, u32 *gid)
{
	*uid = from_kuid(&init_user_ns, current_uid());
	*gid = from_kgid(&init_user_ns, current_gid());
}

struct pid *ublk_rust_pid(void)
{
	return get_pid(task_tgid(current));
}

bool ublk_rust_pid_is(struct pid *pid, int number)
{
	bool is;

	rcu_read_lock();
	is = find_vpid(number) == pid;
	rcu_read_unlock();
	return is;
}

bool ublk_rust_is_same_task(struct io_uring_cmd *one, struct io_uring_cmd *other)
{
	return io_uring_cmd_ctx_handle(one) == io_uring_cmd_ctx_handle(other) &&
	       io_uring_cmd_get_task(one) == io_uring_cmd_get_task(other);
}

void *ublk_rust_ring(struct io_uring_cmd *command)
{
	return io_uring_cmd_ctx_handle(command);
}

/* Without interrupts' bottom halves, the last reference of a file that ends with
 * the request is not dropped by this task, which is the server.
 */
void ublk_rust_end_request(struct request *request, blk_status_t status)
{
	local_bh_disable();
	blk_mq_end_request(request, status);
	local_bh_enable();
}

void ublk_rust_end_bytes(struct request *request, unsigned int bytes)
{
	bool has_more;

	local_bh_disable();
	has_more = blk_update_request(request, BLK_STS_OK, bytes);
	local_bh_enable();
	if (has_more)
		blk_mq_requeue_request(request, true);
	else
		__blk_mq_end_request(request, BLK_STS_OK);
}

/* Memory of requests may be of any kind, also of slabs from which nothing is
 * usually copied to user space.
 */
size_t ublk_rust_copy_out(u64 to, struct page *from, size_t offset, size_t size)
{
	void *address = kmap_local_page(from) + offset;
	size_t left = _copy_to_user(u64_to_user_ptr(to), address, size);

	kunmap_local(address);
	return size - left;
}

size_t ublk_rust_copy_in(struct page *to, size_t offset, u64 from, size_t size)
{
	void *address = kmap_local_page(to) + offset;
	size_t left = _copy_from_user(address, u64_to_user_ptr(from), size);

	kunmap_local(address);
	return size - left;
}

size_t ublk_rust_iter_out(struct page *from, size_t offset, size_t size,
			  struct iov_iter *iter)
{
	void *address = kmap_local_page(from) + offset;
	size_t done = _copy_to_iter(address, size, iter);

	kunmap_local(address);
	return done;
}

size_t ublk_rust_iter_in(struct page *to, size_t offset, size_t size,
			 struct iov_iter *iter)
{
	void *address = kmap_local_page(to) + offset;
	size_t done = _copy_from_iter(address, size, iter);

	kunmap_local(address);
	return done;
}

ssize_t ublk_rust_user_bytes(struct iov_iter *iter)
{
	return user_backed_iter(iter) ? iov_iter_count(iter) : -EACCES;
}

void *ublk_rust_memory(size_t size)
{
	return vmalloc_user(size);
}

int ublk_rust_disk_close(struct gendisk *disk, bool *is_closed)
{
	int error = 0;

	mutex_lock(&disk->open_mutex);
	if (disk_openers(disk))
		error = -EBUSY;
	else
		*is_closed = true;
	mutex_unlock(&disk->open_mutex);
	return error;
}

void ublk_rust_disk_allow_scan(struct gendisk *disk)
{
	clear_bit(GD_SUPPRESS_PART_SCAN, &disk->state);
}

void ublk_rust_disk_scan(struct gendisk *disk)
{
	if (!test_and_clear_bit(GD_SUPPRESS_PART_SCAN, &disk->state))
		return;
	mutex_lock(&disk->open_mutex);
	bdev_disk_changed(disk, false);
	mutex_unlock(&disk->open_mutex);
}
