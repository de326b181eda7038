// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "initial_window.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/mount.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/bpf_common.h and linux/bpf.h, in the words of the kernel's own assembler macros. */
#define LOAD_U32(dst, src, offset) {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (dst), .src_reg = (src), .off = (offset)}
#define STORE_U32(dst, offset, src) {.code = BPF_STX | BPF_MEM | BPF_W, .dst_reg = (dst), .src_reg = (src), .off = (offset)}
#define SET(dst, value) {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (dst), .imm = (value)}
#define COPY(dst, src) {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (dst), .src_reg = (src)}
#define ADD(dst, value) {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = (dst), .imm = (value)}
#define SKIP_IF_NOT(dst, value, count) {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = (dst), .imm = (value), .off = (count)}
#define SKIP_IF(dst, value, count) {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = (dst), .imm = (value), .off = (count)}
#define CALL(function) {.code = BPF_JMP | BPF_CALL, .imm = (function)}
#define EXIT {.code = BPF_JMP | BPF_EXIT}

static long bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

/* Sets the window when the handshake is over: of sockets that were accepted, and of those that have connected. */
static int load(int client_segments, int server_segments)
{
	const struct bpf_insn program[] = {
		COPY(6, 1),
		LOAD_U32(2, 1, offsetof(struct bpf_sock_ops, op)),
		SET(3, 0),
		SKIP_IF_NOT(2, BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB, 1),
		SET(3, client_segments),
		SKIP_IF_NOT(2, BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB, 1),
		SET(3, server_segments),
		SKIP_IF(3, 0, 8),
		STORE_U32(10, -4, 3),
		COPY(1, 6),
		SET(2, IPPROTO_TCP),
		SET(3, TCP_BPF_IW),
		COPY(4, 10),
		ADD(4, -4),
		SET(5, 4),
		CALL(BPF_FUNC_setsockopt),
		SET(0, 1),
		EXIT,
	};
	char said[4096] = "";
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_SOCK_OPS,
		.insns = (uintptr_t)program,
		.insn_cnt = sizeof(program) / sizeof(program[0]),
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)said,
		.log_size = sizeof(said),
		.log_level = 1,
	};
	return (int)bpf(BPF_PROG_LOAD, &attributes);
}

/* The root of the cgroup tree, whether or not it is mounted anywhere. */
static int cgroup_root(void)
{
	int context = (int)syscall(SYS_fsopen, "cgroup2", FSOPEN_CLOEXEC);
	if (context < 0)
		return -1;
	int root = -1;
	if (!syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0))
		root = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, 0);
	close(context);
	return root;
}

/* Below the cgroup that this process is in: "0::/path" in /proc/self/cgroup. */
static bool own_name(uint16_t port, char *name, size_t bytes)
{
	char line[512], path[512] = "";
	struct stat network;
	FILE *file = fopen("/proc/self/cgroup", "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "0::/%511[^\n]", path);
	if (file)
		fclose(file);
	if (!file || stat("/proc/self/ns/net", &network))
		return false;
	int length = snprintf(name, bytes, "./%s/satpep-%lu-%u", path, (unsigned long)network.st_ino, port);
	return length > 0 && (size_t)length < bytes;
}

/* A descriptor of the cgroup, which this process has moved to. */
static int enter_own_cgroup(uint16_t port)
{
	char name[600], number[16];
	int root = cgroup_root();
	if (root < 0 || !own_name(port, name, sizeof(name)))
		return -1;
	int own = -1;
	if (!mkdirat(root, name, 0755) || errno == EEXIST)
		own = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(root);
	if (own < 0)
		return -1;
	int processes = openat(own, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	int length = snprintf(number, sizeof(number), "%d", getpid());
	bool moved = processes >= 0 && write(processes, number, (size_t)length) == length;
	int error = errno;
	if (processes >= 0)
		close(processes);
	if (moved)
		return own;
	close(own);
	errno = error;
	return -1;
}

bool initial_window_set(const struct options *options)
{
	int client = options->legs[CLIENT].initcwnd, server = options->legs[SERVER].initcwnd;
	if (!client && !server)
		return true;
	const char *failed = "a cgroup of its own (version 2; needs CAP_SYS_ADMIN)";
	int program = -1, cgroup = enter_own_cgroup(options->port);
	if (cgroup >= 0) {
		failed = "a sockops program (needs CONFIG_CGROUP_BPF and CAP_SYS_ADMIN)";
		program = load(client, server);
	}
	union bpf_attr attach = {
		.target_fd = (unsigned)cgroup,
		.attach_bpf_fd = (unsigned)program,
		.attach_type = BPF_CGROUP_SOCK_OPS,
		.attach_flags = BPF_F_ALLOW_OVERRIDE,
	};
	bool attached = program >= 0 && !bpf(BPF_PROG_ATTACH, &attach);
	if (!attached)
		fprintf(stderr, "satpep: initcwnd: %s: %s\n", failed, strerror(errno));
	if (program >= 0)
		close(program);
	if (cgroup >= 0)
		close(cgroup);
	return attached;
}
