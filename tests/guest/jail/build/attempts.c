/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a build tries that is somebody else's code. Prints "through: ATTEMPT" for each that gets through. The caller
 * gives the path of a file of the host, its own process id, a name under which an abstract unix socket listens, and
 * the directory that may be written to.
 *
 *   attempts SECRET PID ABSTRACT OUT
 */
#include "tries.h"

#include <sys/shm.h>

static int mode_of(const char *path)
{
	struct stat status;

	return stat(path, &status) < 0 ? 0 : status.st_mode;
}

static void files(const char *secret)
{
	struct { uint64_t value; uint32_t size, flags; } value = { (unsigned long)"x", 1, 0 };
	struct timespec stamps[2] = {};
	uint64_t flags[3] = {};
	char beside[4096], through_proc[4096];

	snprintf(beside, sizeof(beside), "%s.new", secret);
	snprintf(through_proc, sizeof(through_proc), "/proc/self/root%s", secret);
	TRY(open(secret, O_RDONLY));
	TRY(open(secret, O_WRONLY | O_TRUNC));
	TRY(open(through_proc, O_RDONLY));
	TRY(open(beside, O_CREAT | O_WRONLY, 0600));
	TRY(open("/etc/shadow", O_RDONLY));
	TRY(open("/root/.profile", O_RDONLY));
	TRY(open("/home", O_RDONLY | O_DIRECTORY));
	TRY(open("/dev/mem", O_RDONLY));
	TRY(open("/dev/tty", O_RDWR));
	TRY(open("/usr/bin/new", O_CREAT | O_WRONLY, 0755));
	TRY(open("/usr/bin/make", O_WRONLY));
	TRY(open("attempts.c", O_WRONLY));
	TRY(open("new", O_CREAT | O_WRONLY, 0600));
	TRY(truncate(secret, 0));
	TRY(unlink(secret));
	TRY(rename(secret, beside));
	TRY(link(secret, beside));
	TRY(mkdir(beside, 0777));
	TRY(mkfifo(beside, 0666));
	TRY(symlink("/etc/passwd", beside));
	TRY(syscall(SYS_setxattr, secret, "user.x", "x", 1, 0));
	TRY(syscall(463, AT_FDCWD, secret, 0, "user.x", &value, sizeof(value))); /* setxattrat */
	TRY(syscall(469, AT_FDCWD, secret, flags, sizeof(flags), 0)); /* file_setattr */
	TRY(syscall(SYS_listxattr, secret, beside, 0));
	TRY(ioctl(open("attempts.c", O_RDONLY), 0x40086602, flags)); /* FS_IOC_SETFLAGS */
	TRY(syscall(SYS_inotify_init1, 0));
	TRY(chown(secret, 1, 1));
	TRY(lchown(secret, 1, 1));
	/* with Landlock alone these say that it was done: the caller looks */
	chmod(secret, 0777);
	fchmodat(AT_FDCWD, secret, 0777, 0);
	utimensat(AT_FDCWD, secret, stamps, 0);
	TRY(syscall(SYS_name_to_handle_at, AT_FDCWD, secret, NULL, NULL, 0));
	TRY(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY));
	TRY(syscall(SYS_fanotify_init, 0, 0));
	TRY(chroot("/"));
}

static void own_files(const char *out)
{
	char path[4096], other[4096];

	snprintf(path, sizeof(path), "%s/own", out);
	snprintf(other, sizeof(other), "%s/other", out);
	if (open(path, O_CREAT | O_WRONLY, 0600) < 0)
		check(true, "the directory of the build cannot be written, which it should be");
	chmod(path, 04755);
	TRY(mode_of(path) & 06000 ? 0 : -1);
	fchmodat(AT_FDCWD, path, 02755, 0);
	TRY(mode_of(path) & 06000 ? 0 : -1);
	TRY(open(other, O_CREAT | O_WRONLY, 04755));
	TRY(mknod(other, S_IFREG | 04755, 0));
	TRY(mknod(other, S_IFCHR | 0666, makedev(1, 1)));
	TRY(mknod(other, S_IFCHR | 0666, makedev(0, 0)));
	TRY(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_WHITEOUT));
}

static void processes(pid_t parent)
{
	struct rlimit64 limit = { 1, 1 };
	struct iovec iov = { &limit, sizeof(limit) };

	TRY(kill(parent, 0));
	TRY(kill(parent, SIGKILL));
	TRY(syscall(SYS_tgkill, parent, parent, SIGKILL));
	TRY(ptrace(PTRACE_ATTACH, parent, NULL, NULL));
	TRY(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	TRY(syscall(SYS_process_vm_readv, parent, &iov, 1, &iov, 1, 0));
	TRY(syscall(SYS_pidfd_open, parent, 0));
	TRY(syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, &limit, NULL));
	TRY(syscall(SYS_sched_setaffinity, parent, sizeof(limit), &limit));
	TRY(syscall(SYS_setpriority, PRIO_PROCESS, parent, 19));
	TRY(syscall(SYS_unshare, CLONE_NEWUSER));
	TRY(syscall(SYS_unshare, CLONE_NEWNS));
	TRY(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0));
	TRY(syscall(SYS_clone3, NULL, 0));
	TRY(syscall(SYS_setns, 0, 0));
	TRY(setuid(1));
}

static void network(const char *abstract)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int pair[2];

	TRY(socket(AF_INET, SOCK_STREAM, 0));
	TRY(socket(AF_INET, SOCK_DGRAM, 0));
	TRY(socket(AF_INET6, SOCK_STREAM, 0));
	TRY(socket(AF_UNIX, SOCK_STREAM, 0));
	TRY(socket(AF_UNIX, SOCK_DGRAM, 0));
	TRY(socket(AF_NETLINK, SOCK_RAW, 0));
	TRY(socket(AF_PACKET, SOCK_RAW, 0));
	TRY(socket(AF_VSOCK, SOCK_STREAM, 0));
	TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		check(true, "no socketpair, which builds may need");
	strncpy(address.sun_path + 1, abstract, sizeof(address.sun_path) - 2);
	TRY(sendto(pair[0], "x", 1, 0, (struct sockaddr *)&address,
		   offsetof(struct sockaddr_un, sun_path) + 1 + strlen(abstract)));
}

static void kernel(void)
{
	struct io_uring_params ring = {};
	union bpf_attr bpf = { .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1 };

	TRY(syscall(SYS_io_uring_setup, 1, &ring));
	TRY(syscall(SYS_bpf, BPF_MAP_CREATE, &bpf, sizeof(bpf)));
	TRY(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
	TRY(syscall(SYS_userfaultfd, 0));
	TRY(syscall(SYS_keyctl, 0, -3, 0));
	TRY(syscall(SYS_add_key, "user", "x", "x", 1, -3));
	TRY(syscall(SYS_mount, "/", "/", NULL, 4096, NULL));
	TRY(syscall(SYS_umount2, "/", 2));
	TRY(syscall(SYS_pivot_root, ".", "."));
	TRY(syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	TRY(syscall(SYS_fsopen, "tmpfs", 0));
	TRY(syscall(SYS_init_module, NULL, 0, ""));
	TRY(syscall(SYS_shmget, 1, 4096, 0666 | IPC_CREAT));
	TRY(syscall(SYS_shmctl, 0, IPC_INFO, &ring));
	TRY(syscall(SYS_msgctl, 0, IPC_INFO, &ring));
	TRY(syscall(SYS_semctl, 0, 0, IPC_INFO, &ring));
	TRY(syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL));
	TRY(syscall(0x40000000 + SYS_getpid));
	TRY(ioctl(0, TIOCSTI, "x"));
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	if (fork() == 0) { /* has standard output: the caller sees whether it lives on */
		setsid();
		for (;;)
			pause();
	}
	network(argv[3]);
	kernel();
	files(argv[1]);
	own_files(argv[4]);
	processes(atoi(argv[2]));
	printf("%d got through\n", through);
	return through != 0;
}
