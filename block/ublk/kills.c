// SPDX-License-Identifier: GPL-2.0
/* In a guest: kills servers of disks, each at a random time while processes use
 * the disk. Prints for each kind of device how many were killed before and after
 * the disk was there. Fails if a device does not get over it, or if a process
 * hangs.
 *
 *   kills COUNT SEED
 */

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/types.h>
#include <linux/ublk_cmd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUEUES 2
#define DEPTH 8
#define BLOCK 4096
#define SECTORS (32 << 11)
/* Until a device or a process hangs. */
#define PATIENCE_MS 60000
/* Between two looks at what is awaited. */
#define POLL_US 500
/* What tags of the requests of a server's ring mean. */
#define HELP 0x100000000ull

struct kind {
	const char *name;
	__u64 flags;
};

static const struct kind ways[] = {
	{ "copy", 0 },
	{ "get data", UBLK_F_NEED_GET_DATA },
	{ "user copy", UBLK_F_USER_COPY },
	{ "zero copy", UBLK_F_SUPPORT_ZERO_COPY },
	{ "automatic buffers", UBLK_F_AUTO_BUF_REG },
};

static const struct kind recoveries[] = {
	{ "none", 0 },
	{ "wait", UBLK_F_USER_RECOVERY },
	{ "reissue", UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE },
	{ "fail", UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_FAIL_IO },
};

#define RECOVERIES (sizeof(recoveries) / sizeof(*recoveries))

static struct io_uring control;
static int control_file;
static __u32 id;
static __u64 flags;

static __u64 now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ull + now.tv_nsec / 1000;
}

/* Sends a command for the device; its result comes later. */
static void send_command(unsigned int code, void *place, size_t size, __u64 data)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&control);
	struct ublksrv_ctrl_cmd *command;

	memset(entry, 0, 2 * sizeof(*entry));
	entry->opcode = IORING_OP_URING_CMD;
	entry->fd = control_file;
	entry->cmd_op = code;
	command = (struct ublksrv_ctrl_cmd *)entry->cmd;
	command->dev_id = id;
	command->queue_id = -1;
	command->addr = (unsigned long)place;
	command->len = size;
	command->data[0] = data;
	io_uring_submit(&control);
}

/* Returns whether a result came within some microseconds. */
static bool wait_result(__u64 us, int *result)
{
	struct __kernel_timespec time = { us / 1000000, us % 1000000 * 1000 };
	struct io_uring_cqe *done;

	if (io_uring_wait_cqe_timeout(&control, &done, &time))
		return false;
	*result = done->res;
	io_uring_cqe_seen(&control, done);
	return true;
}

static int run_command(unsigned int code, void *place, size_t size, __u64 data)
{
	int result;

	send_command(code, place, size, data);
	if (!wait_result(PATIENCE_MS * 1000ull, &result))
		errx(1, "command %x hangs", code);
	return result;
}

static int state(void)
{
	struct ublksrv_ctrl_dev_info info;
	int result = run_command(UBLK_U_CMD_GET_DEV_INFO, &info, sizeof(info), 0);

	if (result)
		errx(1, "no information: %s", strerror(-result));
	return info.state;
}

static void add_device(void)
{
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = QUEUES, .queue_depth = DEPTH, .dev_id = -1,
		.max_io_buf_bytes = 64 << 10,
		.flags = flags | UBLK_F_NO_AUTO_PART_SCAN,
	};
	struct ublk_params params = {
		.len = sizeof(params), .types = UBLK_PARAM_TYPE_BASIC,
		.basic = { .logical_bs_shift = 12, .physical_bs_shift = 12,
			   .io_opt_shift = 12, .io_min_shift = 12,
			   .max_sectors = 128, .dev_sectors = SECTORS },
	};
	int result;

	id = -1;
	result = run_command(UBLK_U_CMD_ADD_DEV, &info, sizeof(info), 0);
	if (result)
		errx(1, "adding a device: %s", strerror(-result));
	id = info.dev_id;
	result = run_command(UBLK_U_CMD_SET_PARAMS, &params, sizeof(params), 0);
	if (result)
		errx(1, "setting parameters: %s", strerror(-result));
}

struct server {
	int file;
	int queue;
	struct io_uring ring;
	const struct ublksrv_io_desc *requests;
	char *buffers;
};

static void ask(struct server *server, unsigned int code, int tag, int result,
		__u64 address, __u64 help)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(&server->ring);
	struct ublksrv_io_cmd *command;

	memset(entry, 0, sizeof(*entry));
	entry->opcode = IORING_OP_URING_CMD;
	entry->flags = IOSQE_FIXED_FILE;
	entry->cmd_op = code;
	entry->user_data = tag | help;
	command = (struct ublksrv_io_cmd *)entry->cmd;
	command->q_id = server->queue;
	command->tag = tag;
	command->result = result;
	command->addr = address;
	/* The index of a buffer, which is the tag. */
	if (flags & UBLK_F_AUTO_BUF_REG)
		entry->addr = tag;
}

static __u64 buffer(struct server *server, int tag)
{
	if (flags & (UBLK_F_USER_COPY | UBLK_F_SUPPORT_ZERO_COPY | UBLK_F_AUTO_BUF_REG))
		return 0;
	return (unsigned long)server->buffers + (tag << 16);
}

static void handle(struct server *server, int tag)
{
	const struct ublksrv_io_desc *request = &server->requests[tag];
	int size = request->nr_sectors << 9, op = ublksrv_get_op(request);
	off_t place = UBLKSRV_IO_BUF_OFFSET + ((off_t)tag << UBLK_TAG_OFF) +
		      ((off_t)server->queue << UBLK_QID_OFF);
	char data[BLOCK];
	int at;

	if (flags & UBLK_F_USER_COPY && op <= UBLK_IO_OP_WRITE) {
		for (at = 0; at < size; at += BLOCK) {
			ssize_t done = op == UBLK_IO_OP_READ ?
				pwrite(server->file, data, BLOCK, place + at) :
				pread(server->file, data, BLOCK, place + at);

			if (done != BLOCK)
				errx(1, "copying: %zd, %s", done, strerror(errno));
		}
	}
	if (flags & UBLK_F_SUPPORT_ZERO_COPY && op <= UBLK_IO_OP_WRITE) {
		ask(server, UBLK_U_IO_REGISTER_IO_BUF, tag, 0, tag, HELP);
		ask(server, UBLK_U_IO_UNREGISTER_IO_BUF, tag, 0, tag, HELP);
	}
	ask(server, UBLK_U_IO_COMMIT_AND_FETCH_REQ, tag, size, buffer(server, tag), 0);
}

static void *serve_queue(void *argument)
{
	struct server *server = argument;
	struct io_uring_cqe *done;
	size_t size = sizeof(struct ublksrv_io_desc);
	int tag;

	if (io_uring_queue_init(4 * DEPTH, &server->ring,
				IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN) ||
	    io_uring_register_buffers_sparse(&server->ring, DEPTH) ||
	    io_uring_register_files(&server->ring, &server->file, 1))
		errx(1, "no ring");
	server->requests = mmap(NULL, (DEPTH * size + 4095) & ~4095ul, PROT_READ,
				MAP_SHARED | MAP_POPULATE, server->file,
				server->queue * ((UBLK_MAX_QUEUE_DEPTH * size + 4095) & ~4095ul));
	if (server->requests == MAP_FAILED)
		err(1, "no requests");
	server->buffers = mmap(NULL, DEPTH << 16, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (tag = 0; tag < DEPTH; tag++)
		ask(server, UBLK_U_IO_FETCH_REQ, tag, 0, buffer(server, tag), 0);
	for (;;) {
		io_uring_submit_and_wait(&server->ring, 1);
		while (!io_uring_peek_cqe(&server->ring, &done)) {
			__u64 data = done->user_data;
			int result = done->res;

			io_uring_cqe_seen(&server->ring, done);
			tag = data & 0xffff;
			if (data & HELP) {
				if (result < 0)
					errx(1, "a buffer: %s", strerror(-result));
			} else if (result == UBLK_IO_RES_NEED_GET_DATA) {
				ask(server, UBLK_U_IO_NEED_GET_DATA, tag, 0,
				    buffer(server, tag), 0);
			} else if (result == UBLK_IO_RES_OK) {
				handle(server, tag);
			} else {
				return NULL;
			}
		}
	}
}

static pid_t start_server(void)
{
	struct server servers[QUEUES];
	pthread_t threads[QUEUES];
	char name[32];
	pid_t child;
	int file, queue, tries = 0;

	child = fork();
	if (child)
		return child;
	snprintf(name, sizeof(name), "/dev/ublkc%u", id);
	while ((file = open(name, O_RDWR)) < 0 && errno == EBUSY && tries++ < PATIENCE_MS)
		usleep(1000);
	if (file < 0)
		err(1, "%s", name);
	for (queue = 0; queue < QUEUES; queue++) {
		servers[queue].file = file;
		servers[queue].queue = queue;
		pthread_create(&threads[queue], NULL, serve_queue, &servers[queue]);
	}
	for (queue = 0; queue < QUEUES; queue++)
		pthread_join(threads[queue], NULL);
	_exit(0);
}

/* Reads and writes the disk for ever, whenever it is there. */
static pid_t start_load(unsigned int seed)
{
	char name[32], *data;
	pid_t child = fork();
	int file;

	if (child)
		return child;
	data = aligned_alloc(BLOCK, 64 << 10);
	snprintf(name, sizeof(name), "/dev/ublkb%u", id);
	for (;;) {
		file = open(name, O_RDWR | O_DIRECT);
		if (file < 0) {
			usleep(2000);
			continue;
		}
		for (int count = rand_r(&seed) % 50; count; count--) {
			size_t size = BLOCK << rand_r(&seed) % 5;
			off_t place = rand_r(&seed) % (SECTORS / 128 - 1) * (64 << 10);
			ssize_t done = rand_r(&seed) & 1 ? pread(file, data, size, place) :
							   pwrite(file, data, size, place);

			if (done < 0)
				break;
		}
		close(file);
	}
}

/* Waits for the end of a process that was killed. */
static void bury(pid_t child, const char *what)
{
	__u64 end = now_us() + PATIENCE_MS * 1000ull;

	while (!waitpid(child, NULL, WNOHANG)) {
		if (now_us() > end)
			errx(1, "%s hangs", what);
		usleep(POLL_US);
	}
}

/* Returns whether the server was killed after the disk was there. */
static bool kill_one(bool recovers, __u64 delay)
{
	__u64 end = now_us() + PATIENCE_MS * 1000ull;
	pid_t server = start_server();
	int result = 0;
	bool is_ready;

	for (;;) {
		send_command(recovers ? UBLK_U_CMD_END_USER_RECOVERY : UBLK_U_CMD_START_DEV,
			     NULL, 0, server);
		is_ready = wait_result(delay, &result);
		if (!is_ready || (result != -EINVAL && result != -EEXIST) || now_us() >= end)
			break;
		/* The server before, which had fetched all, or its disk is not gone yet. */
		usleep(POLL_US);
	}
	if (is_ready && result)
		errx(1, "starting: %s", strerror(-result));
	if (is_ready)
		usleep(delay / 2);
	kill(server, SIGKILL);
	bury(server, "the server");
	if (!is_ready && !wait_result(1000, &result)) {
		struct io_uring_sqe *entry = io_uring_get_sqe(&control);

		memset(entry, 0, 2 * sizeof(*entry));
		io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY);
		io_uring_submit(&control);
		for (int count = 0; count < 2; count++)
			if (!wait_result(PATIENCE_MS * 1000ull, &result))
				errx(1, "a cancelled command hangs");
	}
	while (state() == UBLK_S_DEV_LIVE) {
		if (now_us() > end)
			errx(1, "the device does not notice");
		usleep(POLL_US);
	}
	return is_ready;
}

static void kill_many(const struct kind *way, const struct kind *recovery, int count,
		      unsigned int seed)
{
	int ready = 0, result;
	__u64 most = 20000;
	pid_t loads[2];

	flags = way->flags | recovery->flags;
	add_device();
	for (int load = 0; load < 2; load++)
		loads[load] = start_load(seed + load);
	for (int done = 0; done < count; done++) {
		bool recovers = state() != UBLK_S_DEV_DEAD, was_ready;

		was_ready = kill_one(recovers, rand_r(&seed) % most);
		ready += was_ready;
		/* About half of the servers are killed before, whatever the machine. */
		if (!was_ready && ready < done / 2)
			most += most / 8;
		else if (was_ready && ready > done / 2)
			most -= most / 16;
	}
	for (int load = 0; load < 2; load++)
		kill(loads[load], SIGKILL);
	result = run_command(UBLK_U_CMD_DEL_DEV, NULL, 0, 0);
	if (result)
		errx(1, "deleting: %s", strerror(-result));
	for (int load = 0; load < 2; load++)
		bury(loads[load], "a user of the disk");
	printf("%s, recovery %s: %d killed before, %d after\n", way->name, recovery->name,
	       count - ready, ready);
	fflush(stdout);
}

/* Kills servers of devices of one way, which have each recovery in turn. */
static void kill_all_of(size_t way, int count, unsigned int seed)
{
	if (io_uring_queue_init(8, &control, IORING_SETUP_SQE128))
		errx(1, "no ring");
	for (size_t recovery = 0; recovery < RECOVERIES; recovery++)
		kill_many(&ways[way], &recoveries[recovery], count,
			  seed + way * RECOVERIES + recovery);
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 100, failed = 0, status;
	unsigned int seed = argc > 2 ? atoi(argv[2]) : 1;

	signal(SIGPIPE, SIG_IGN);
	control_file = open("/dev/ublk-control", O_RDWR);
	if (control_file < 0)
		err(1, "/dev/ublk-control");
	/* At the same time: a server mostly waits for the end of the one before. */
	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++) {
		pid_t child = fork();

		if (child < 0)
			err(1, "no process");
		if (!child) {
			kill_all_of(way, count, seed);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	return !!failed;
}
