/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stands in the jail in place of a guest's kernel, as code that has taken over its process would, and tries every
 * way out. Prints "through: ATTEMPT" for each that gets through; ends with 0 if none did. The caller gives the path
 * of a file of the host, its own process id, and a name under which an abstract unix socket listens.
 *
 *   evil RUN_DIR=PLACE … SECRET PID ABSTRACT
 */
#include "build/tries.h"

#include <linux/mount.h>

static const char *place(int argc, char **argv, const char *name)
{
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], name, strlen(name)) == 0)
			return argv[i] + strlen(name);
	exit(3);
}

static int to_abstract(int socket, const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strncpy(address.sun_path + 1, name, sizeof(address.sun_path) - 2);
	return sendto(socket, "x", 1, 0, (struct sockaddr *)&address,
		      offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static void files(const char *secret, bool hides_names)
{
	char buffer[64], beside[4096], link_name[4096];
	struct stat status;
	struct timeval times[2] = {};
	struct timespec stamps[2] = {};

	snprintf(beside, sizeof(beside), "%s.new", secret);
	TRY(open(secret, O_RDONLY));
	TRY(open(secret, O_WRONLY));
	TRY(open(secret, O_RDWR | O_TRUNC));
	TRY(open(beside, O_CREAT | O_WRONLY, 0600));
	if (!hides_names) /* else it is the jail's own */
		TRY(open("/", O_RDONLY | O_DIRECTORY));
	TRY(open("/etc/passwd", O_RDONLY));
	TRY(open("/proc/1/environ", O_RDONLY));
	TRY(open("/proc/self/environ", O_RDONLY));
	TRY(open("/dev/mem", O_RDONLY));
	TRY(open("/dev/tty", O_RDWR));
	TRY(open("/dev/net/tun", O_RDWR));
	TRY(truncate(secret, 0));
	TRY(chmod(secret, 0777));
	TRY(chown(secret, 1, 1));
	TRY(lchown(secret, 1, 1));
	TRY(fchmodat(AT_FDCWD, secret, 0777, 0));
	TRY(fchownat(AT_FDCWD, secret, 1, 1, 0));
	TRY(utimes(secret, times));
	TRY(utimensat(AT_FDCWD, secret, stamps, 0));
	TRY(syscall(SYS_setxattr, secret, "user.x", "x", 1, 0));
	TRY(syscall(SYS_getxattr, secret, "user.x", buffer, sizeof(buffer)));
	TRY(syscall(SYS_removexattr, secret, "user.x"));
	TRY(unlink(secret));
	TRY(rename(secret, beside));
	TRY(link(secret, beside));
	TRY(symlink("/etc/passwd", beside));
	TRY(mkdir(beside, 0777));
	TRY(mkfifo(beside, 0666));
	TRY(chdir("/etc"));
	TRY(chroot("/"));
	TRY(syscall(SYS_name_to_handle_at, AT_FDCWD, secret, NULL, NULL, 0));
	TRY(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY));
	TRY(syscall(SYS_inotify_init1, 0));
	TRY(syscall(SYS_fanotify_init, 0, 0));
	if (hides_names) {
		TRY(stat(secret, &status));
		TRY(access(secret, F_OK));
		TRY(open(secret, O_PATH));
		TRY(stat("/proc", &status));
		TRY(stat("/etc", &status));
	}
	snprintf(link_name, sizeof(link_name), "/proc/self/root/%s", secret);
	TRY(open(link_name, O_RDONLY));
}

static void places(const char *guest, const char *code, const char *run)
{
	char path[4096], other[4096];
	struct stat status;
	int fd;

	const char *const read_only[] = { guest, code };
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/new", read_only[i]);
		TRY(open(path, O_CREAT | O_WRONLY, 0600));
		TRY(mkdir(path, 0700));
		TRY(symlink("x", path));
		snprintf(path, sizeof(path), "%s/kept", read_only[i]);
		TRY(open(path, O_WRONLY));
		TRY(open(path, O_RDONLY | O_TRUNC));
		TRY(unlink(path));
		fd = open(path, O_RDONLY);
		if (fd < 0)
			check(true, "the guest tree cannot be read, which it should be");
		TRY(ftruncate(fd, 0));
		TRY(fchmod(fd, 0));
		TRY(fchmod(fd, 0777));
		TRY(syscall(SYS_utimensat, fd, NULL, NULL, 0));
		TRY(syscall(SYS_mount, NULL, read_only[i], NULL, 32 /* MS_REMOUNT */, NULL));
		snprintf(other, sizeof(other), "%s/linked", run);
		TRY(link(path, other));
	}
	snprintf(path, sizeof(path), "%s/device", run);
	TRY(mknod(path, S_IFCHR | 0666, makedev(1, 1)));
	TRY(mknod(path, S_IFBLK | 0666, makedev(8, 0)));
	TRY(mknod(path, S_IFCHR | 0666, makedev(0, 0)));
	snprintf(path, sizeof(path), "%s/allowed", run);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	if (fd < 0 || write(fd, "x", 1) != 1)
		check(true, "the run's directory cannot be written, which it should be");
	if (fchmod(fd, 0750) < 0 && strcmp(run, "/run") == 0)
		check(true, "a file's mode cannot be changed, which it should be");
	TRY(fchmod(fd, 04755));
	TRY(fchmod(fd, 02755));
	TRY(fchown(fd, getuid(), getgid()));
	snprintf(other, sizeof(other), "%s/set-id", run);
	TRY(open(other, O_CREAT | O_WRONLY, 04755));
	TRY(openat(AT_FDCWD, other, O_CREAT | O_WRONLY, 02755));
	TRY(open(run, O_TMPFILE | O_WRONLY, 04755));
	TRY(mknod(other, S_IFREG | 04755, 0));
	TRY(mknodat(AT_FDCWD, other, S_IFREG | 02755, 0));
	TRY(mkdir(other, 02777) < 0 || stat(other, &status) < 0 || !(status.st_mode & 06000) ? -1 : 0);
	rmdir(other);
	TRY(renameat2(AT_FDCWD, path, AT_FDCWD, other, RENAME_WHITEOUT));
	snprintf(path, sizeof(path), "%s/link", run);
	if (symlink("/etc/passwd", path) == 0)
		TRY(open(path, O_RDONLY));
	snprintf(path, sizeof(path), "%s/../../etc/passwd", run);
	TRY(open(path, O_RDONLY));
}

static void processes(pid_t parent)
{
	struct rlimit64 limit = { 1, 1 };
	struct iovec iov = { &limit, sizeof(limit) };
	pid_t self = getpid();

	TRY(kill(parent, 0));
	TRY(kill(parent, SIGKILL));
	TRY(syscall(SYS_tkill, parent, SIGKILL));
	TRY(syscall(SYS_tgkill, parent, parent, SIGKILL));
	TRY(ptrace(PTRACE_ATTACH, parent, NULL, NULL));
	TRY(ptrace(PTRACE_SEIZE, parent, NULL, NULL));
	TRY(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	TRY(syscall(SYS_process_vm_readv, parent, &iov, 1, &iov, 1, 0));
	TRY(syscall(SYS_process_vm_writev, parent, &iov, 1, &iov, 1, 0));
	TRY(syscall(SYS_pidfd_open, parent, 0));
	TRY(syscall(SYS_kcmp, self, parent, 0, 0, 0));
	TRY(syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, &limit, NULL));
	TRY(syscall(SYS_sched_setaffinity, parent, sizeof(limit), &limit));
	TRY(syscall(SYS_setpriority, PRIO_PROCESS, parent, 19));
	TRY(syscall(SYS_setns, 0, 0));
	TRY(syscall(SYS_unshare, CLONE_NEWUSER));
	TRY(syscall(SYS_unshare, CLONE_NEWNS));
	TRY(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0));
	TRY(syscall(SYS_clone3, NULL, 0));
	TRY(execl("/bin/sh", "sh", "-c", ":", (char *)NULL));
	TRY(setuid(1));
}

static void network(const char *abstract)
{
	int pair[2];

	TRY(socket(AF_INET, SOCK_STREAM, 0));
	TRY(socket(AF_INET6, SOCK_DGRAM, 0));
	TRY(socket(AF_UNIX, SOCK_STREAM, 0));
	TRY(socket(AF_UNIX, SOCK_DGRAM, 0));
	TRY(socket(AF_NETLINK, SOCK_RAW, 0));
	TRY(socket(AF_PACKET, SOCK_RAW, 0));
	TRY(socket(AF_VSOCK, SOCK_STREAM, 0));
	TRY(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
		check(true, "no socketpair, which the kernel needs");
	TRY(to_abstract(pair[0], abstract));
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
	TRY(syscall(SYS_move_mount, AT_FDCWD, "/", AT_FDCWD, "/", 0));
	TRY(syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, NULL, 0));
	TRY(syscall(SYS_init_module, NULL, 0, ""));
	TRY(syscall(SYS_reboot, 0, 0, 0, NULL));
	TRY(syscall(SYS_shmget, 1, 4096, 0666 | 01000));
	TRY(syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL));
	TRY(syscall(SYS_personality, 0));
	TRY(syscall(0x40000000 + SYS_getpid));
	TRY(ioctl(0, 0x5412 /* TIOCSTI */, "x"));
}

int main(int argc, char **argv)
{
	const char *run = place(argc, argv, "RUN_DIR=");

	if (fcntl(4, F_GETFD) >= 0 && strncmp(run, "/proc", 5) != 0)
		check(true, "a descriptor that is open beside 0 to 3");
	network(argv[argc - 1]);
	kernel();
	files(argv[argc - 3], strcmp(run, "/run") == 0);
	places(place(argc, argv, "rootflags="), place(argc, argv, "CODE_DIR="), run);
	processes(atoi(argv[argc - 2]));
	printf("%d got through\n", through);
	return through != 0;
}
