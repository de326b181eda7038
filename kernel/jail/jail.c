// SPDX-License-Identifier: GPL-2.0
/*
 * jail MODE CPU GUEST CODE RUN KERNEL [ARGUMENT]...
 * jail MODE --build OUT [--network] [READABLE]... -- COMMAND [ARGUMENT]...
 *
 * Starts the guest's kernel, pinned to a CPU, where nothing of the host can be
 * reached but three directories: GUEST and CODE (read-only) and RUN. The guest's
 * root can run any code in the kernel's process, so whatever is to hold has to be
 * set by the host before the kernel starts, and cannot be undone afterwards.
 *
 * MODE says what hides the host's files:
 *   namespaces  a mount namespace that has the three directories and nothing
 *               else, and a PID namespace. Landlock too, where the host has it.
 *   landlock    Landlock alone, for containers and other hosts that let nobody
 *               make namespaces. The content of other files, lists of their
 *               names and all changes are out of reach; whether a path exists,
 *               and its size and dates, are not.
 *   none        nothing. For hosts that have neither, if the user says so.
 *
 * In all of them: no capabilities, no new privileges, no more descriptors than
 * 0 to 2 and the three directories, and a list of the system calls that User Mode
 * Linux makes. There is no socket, ptrace, mount, exec of a path, io_uring or BPF
 * in it, and no call that changes a file's attributes by path, its owner, or its
 * mode to one that would run with its owner's rights.
 *
 * The kernel is told its places: hostfs_ro=, hostfs_rw= (its own limit on hostfs,
 * see patches/), rootflags=, RUN_DIR=, CODE_DIR=. None of the host's paths is on
 * its command line.
 *
 * The process that is started stays outside as the keeper. When the kernel's process
 * has ended, or at SIGTERM, or when its own parent has ended, it ends all that have
 * come of it and waits for them: when it is gone, no process of the guest is left.
 *
 * A build (of a program of somebody else's job, say) reads the system's programs and
 * what is READABLE, writes to OUT and has no network, or no sockets but those of the
 * Internet with --network. It may make all system calls but those that reach further.
 *
 * As KERNEL, the jail itself with the argument --inside ends with 0: that shows
 * whether a mode works on this host. When a mode does not, exit code 125; when a
 * guest has passed a limit (limits.c), 124, and standard error says which.
 */
#define _GNU_SOURCE
#include "limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define EXIT_LIMIT	124
#define EXIT_NO_JAIL	125
#define SIGNALLED	128
#define LAST_KEPT_FD	3
#define LOOK_NS		250000000L
#define LARGE_MIB	2048

enum { GUEST, CODE, RUN, PLACES };
static const char *const names[PLACES] = { "guest", "code", "run" };

enum mode { NAMESPACES, LANDLOCK, NONE, MODES };
static const char *const modes[MODES] = { "namespaces", "landlock", "none" };

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *what, ...)
{
	int error = errno;
	va_list list;

	va_start(list, what);
	fputs("jail: ", stderr);
	vfprintf(stderr, what, list);
	fprintf(stderr, ": %s\n", strerror(error));
	va_end(list);
	exit(EXIT_NO_JAIL);
}

static int must(long result, const char *what)
{
	if (result < 0)
		fail("%s", what);
	return result;
}

/* System calls that User Mode Linux and its stubs make, and no others. */

#define ARGUMENT(n)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define ARGUMENT_HIGH(n) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]) + 4)
#define ALLOW		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define DENY		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
/* not KILL: the stub's own filter traps the guest's system calls, and has to win */
#define X32_CALLS	0x40000000
#define FIRST_NEWER	452 /* fchmodat2, of Linux 6.6: the lists below know older ones */

/* Neither a device (every device's type has this bit) nor a program that runs with its owner's rights. */
#define HARMFUL_MODES	(S_ISUID | S_ISGID | S_IFCHR)
#define HARMLESS_MODE(n) \
	ARGUMENT(n), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, HARMFUL_MODES, 0, 1), DENY, ALLOW

static const struct sock_filter second_is_mode[] = { HARMLESS_MODE(1) };
static const struct sock_filter third_is_mode[] = { HARMLESS_MODE(2) };
static const struct sock_filter fourth_is_mode[] = { HARMLESS_MODE(3) };

/* A whiteout is a device, too. */
static const struct sock_filter no_whiteout[] = {
	ARGUMENT(4), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, RENAME_WHITEOUT, 0, 1), DENY, ALLOW,
};

#define NAMESPACE_FLAGS	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | \
			 CLONE_NEWUTS | CLONE_NEWCGROUP)

static const struct sock_filter no_namespaces[] = {
	ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACE_FLAGS, 0, 1), DENY, ALLOW,
};

/* A datagram socket of a pair could still send to others by their address. */
static const struct sock_filter unix_streams[] = {
	ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4),
	ARGUMENT(1), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 0, 1), ALLOW, DENY,
};

static const struct sock_filter own_process[] = {
	ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), ALLOW, DENY,
};

static const struct sock_filter no_path[] = {
	ARGUMENT(1), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
	ARGUMENT_HIGH(1), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), ALLOW, DENY,
};

static const struct sock_filter never[] = { DENY };
static const struct sock_filter always[] = { ALLOW };

struct call {
	int number;
	const struct sock_filter *check;
	size_t length;
};

#define CALL(name)		{ SYS_##name, NULL, 0 }
#define CHECKED(name, check)	{ SYS_##name, check, ARRAY_SIZE(check) }

static struct call calls[] = {
	/* files: which ones, is Landlock's and the mount namespace's */
	CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(vmsplice), CALL(pread64), CALL(pwrite64), CALL(lseek),
	CHECKED(open, third_is_mode), CHECKED(openat, fourth_is_mode), CALL(close), CALL(dup), CALL(dup2), CALL(dup3), CALL(fcntl),
	CALL(stat), CALL(lstat), CALL(fstat), CALL(newfstatat), CALL(statx), CALL(statfs), CALL(fstatfs),
	CALL(access), CALL(faccessat), CALL(faccessat2), CALL(readlink), CALL(readlinkat), CALL(getdents64),
	CALL(mkdir), CALL(mkdirat), CALL(rmdir), CALL(unlink), CALL(unlinkat), CALL(rename), CALL(renameat),
	CHECKED(renameat2, no_whiteout), CALL(link), CALL(linkat), CALL(symlink), CALL(symlinkat),
	CHECKED(mknod, second_is_mode), CHECKED(mknodat, third_is_mode), CALL(ftruncate),
	CHECKED(fchmod, second_is_mode), CALL(fsync), CALL(fdatasync), CALL(umask),
	CHECKED(utimensat, no_path),
	/* memory */
	CALL(mmap), CALL(munmap), CALL(mremap), CALL(mprotect), CALL(madvise), CALL(brk), CALL(memfd_create),
	/* processes and signals */
	CHECKED(clone, no_namespaces), CALL(execveat), CALL(exit), CALL(exit_group), CALL(wait4), CALL(waitid),
	CALL(kill), CALL(tgkill), CALL(tkill), CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn),
	CALL(rt_sigpending), CALL(rt_sigsuspend), CALL(rt_sigtimedwait), CALL(sigaltstack), CALL(signalfd4),
	CALL(getpid), CALL(getppid), CALL(gettid), CALL(getpgrp), CALL(getpgid), CALL(getsid), CALL(setsid),
	CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(prctl), CALL(arch_prctl),
	CALL(set_tid_address), CALL(set_robust_list), CALL(rseq), CALL(seccomp), CALL(sched_yield),
	CALL(sched_getaffinity), CALL(getrlimit), CALL(setrlimit), CHECKED(prlimit64, own_process),
	CALL(getrusage), CALL(times),
	/* time */
	CALL(clock_gettime), CALL(clock_getres), CALL(clock_nanosleep), CALL(nanosleep), CALL(gettimeofday),
	CALL(time), CALL(timer_create), CALL(timer_settime), CALL(timer_gettime), CALL(timer_getoverrun),
	CALL(timer_delete), CALL(setitimer), CALL(getitimer), CALL(alarm), CALL(pause),
	/* between the kernel and its stubs */
	CALL(futex), CHECKED(socketpair, unix_streams), CALL(pipe), CALL(pipe2),
	CALL(eventfd2), CALL(epoll_create), CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_wait),
	CALL(epoll_pwait), CALL(poll), CALL(ppoll), CALL(select), CALL(pselect6), CALL(shutdown),
	CALL(getrandom), CALL(uname),
};

/*
 * A build may make all calls but those that reach processes, mounts or keys of others, or change the machine.
 */
static const struct sock_filter not_there[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS) };
static const struct sock_filter no_xattr[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP) };
static const struct sock_filter done_already[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO) };

static const struct sock_filter internet[] = { /* netlink is for the resolver */
	ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1), ALLOW, DENY,
};

static const struct sock_filter connected[] = { /* Rust tells by the latter that a program did not start */
	ARGUMENT(0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 5),
	ARGUMENT(1), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SOCK_SEQPACKET, 0, 1), ALLOW, DENY,
};

/* FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR: their header is at odds with sys/mount.h. */
#define SET_FLAGS	0x40086602
#define SET_XFLAGS	0x401c5820

static const struct sock_filter harmless_request[] = { /* no terminal's input, no file's flags */
	ARGUMENT(1), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCSTI, 3, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SET_FLAGS, 2, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SET_XFLAGS, 1, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TIOCLINUX, 0, 1), DENY, ALLOW,
};

static struct call refused[] = {
	CHECKED(socketpair, connected), CHECKED(ioctl, harmless_request), CHECKED(clone, no_namespaces),
	CHECKED(clone3, not_there), CALL(unshare), CALL(setns), CALL(ptrace), CALL(process_vm_readv),
	CALL(process_vm_writev), CALL(kcmp), CHECKED(pidfd_open, not_there),
	CALL(pidfd_getfd), CHECKED(prlimit64, own_process),
	CALL(setpriority), CALL(ioprio_set), CALL(sched_setscheduler), CALL(sched_setparam), CALL(sched_setattr),
	CALL(sched_setaffinity), CALL(migrate_pages), CALL(move_pages), CALL(keyctl), CALL(add_key),
	CALL(request_key), CALL(bpf), CALL(perf_event_open), CALL(userfaultfd), CALL(io_uring_setup),
	CALL(io_uring_enter), CALL(io_uring_register), CALL(mount), CALL(umount2), CALL(pivot_root), CALL(chroot),
	CALL(fsopen), CALL(fspick), CALL(fsconfig), CALL(fsmount), CALL(move_mount), CALL(open_tree),
	CALL(mount_setattr), CALL(swapon), CALL(swapoff), CALL(quotactl), CALL(acct), CALL(name_to_handle_at),
	CALL(open_by_handle_at), CALL(fanotify_init), CALL(init_module), CALL(finit_module), CALL(delete_module),
	CALL(kexec_load), CALL(kexec_file_load), CALL(reboot), CALL(syslog), CALL(settimeofday),
	CALL(clock_settime), CALL(clock_adjtime), CALL(adjtimex), CALL(sethostname), CALL(setdomainname),
	CALL(shmget), CALL(shmat), CALL(shmctl), CALL(msgget), CALL(msgsnd), CALL(msgrcv), CALL(msgctl), CALL(semget),
	CALL(semop), CALL(semtimedop), CALL(semctl), CALL(mq_open), CALL(mq_unlink), CALL(inotify_init), CALL(inotify_init1),
	CHECKED(open, third_is_mode), CHECKED(openat, fourth_is_mode), CHECKED(openat2, not_there),
	CHECKED(creat, second_is_mode), CHECKED(mknod, second_is_mode), CHECKED(mknodat, third_is_mode),
	CHECKED(renameat2, no_whiteout), CALL(socket),
	CHECKED(chmod, second_is_mode), CHECKED(fchmod, second_is_mode), CHECKED(fchmodat, third_is_mode),
	CALL(chown), CALL(fchown), CALL(lchown), CALL(fchownat), CHECKED(getxattr, no_xattr),
	CHECKED(lgetxattr, no_xattr), CHECKED(listxattr, no_xattr), CHECKED(llistxattr, no_xattr),
	CALL(setxattr), CALL(lsetxattr), CALL(fsetxattr), CALL(removexattr), CALL(lremovexattr), CALL(fremovexattr),
	CALL(utime), CALL(utimes), CALL(futimesat), CALL(utimensat), CALL(vhangup), CALL(iopl), CALL(ioperm),
};

/* With Landlock alone, which does not look at them, what can be read could be changed by its owner: the guest tree. */
static const int attributes[] = {
	SYS_chmod, SYS_fchmod, SYS_fchmodat, SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat,
};

static void check_call(struct call *list, size_t count, int number, const struct sock_filter *check, size_t length)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].number == number) {
			list[i].check = check;
			list[i].length = length;
		}
}

static int by_number(const void *one, const void *other)
{
	return ((const struct call *)one)->number - ((const struct call *)other)->number;
}

static struct sock_filter filter[BPF_MAXINSNS];
static unsigned int filter_length;

static void put(struct sock_filter instruction)
{
	filter[filter_length++] = instruction;
}

/* A binary tree: seven comparisons find a number. Only numbers are looked at, so that the host's
 * kernel knows beforehand what is always allowed and does not run the filter for it. */
static void put_tree(const struct call *first, size_t count, struct sock_filter found, struct sock_filter other)
{
	unsigned int jump;

	if (count > 1) {
		put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first[count / 2].number, 0, 1));
		jump = filter_length;
		put((struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
		put_tree(first, count / 2, found, other);
		filter[jump].k = filter_length - jump - 1;
		put_tree(first + count / 2, count - count / 2, found, other);
		return;
	}
	put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first->number, 1, 0));
	put(other);
	if (!first->check)
		put(found);
	for (size_t i = 0; i < first->length; i++)
		put(first->check[i]);
}

static void filter_calls(struct call *list, size_t count, struct sock_filter found, struct sock_filter other)
{
	struct sock_fprog program = { .filter = filter };
	long flags = SECCOMP_FILTER_FLAG_SPEC_ALLOW; /* else kernels before 5.16 slow the process down */

	put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
	put((struct sock_filter)DENY);
	put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
	put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1));
	put((struct sock_filter)DENY);
	put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_NEWER, 0, 1));
	put(not_there[0]);
	qsort(list, count, sizeof(list[0]), by_number);
	put_tree(list, count, found, other);
	program.len = filter_length;
	must(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), "seccomp");
}

/* Landlock. Debian 12's header knows its second version; these are of the third to the sixth. */

#define FS_TRUNCATE	(1ULL << 14)
#define FS_IOCTL_DEV	(1ULL << 15)
#define NET_TCP		3ULL /* bind, connect */
#define SCOPED		3ULL /* abstract unix sockets, signals */
#define SCOPE_SIGNALS	2ULL
#define VERSION_SCOPED	6

#define READ	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define CHANGE	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
		 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | \
		 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | FS_TRUNCATE)
#define DEVICES	(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | FS_IOCTL_DEV)
#define EVERYTHING	(READ | CHANGE | DEVICES | LANDLOCK_ACCESS_FS_EXECUTE)

struct ruleset {
	__u64 fs, net, scoped;
};

static int landlock_version(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static void landlock_allow(int ruleset, int fd, __u64 access)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = access, .parent_fd = fd };

	must(syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0), "Landlock rule");
}

/* A set of rules that handles what this host's version knows of `rules`. */
static int landlock_ruleset(int version, struct ruleset rules)
{
	size_t size = version >= VERSION_SCOPED ? sizeof(struct ruleset) : version >= 4 ? 16 : 8;

	if (version < 2)
		rules.fs &= ~LANDLOCK_ACCESS_FS_REFER;
	if (version < 3)
		rules.fs &= ~FS_TRUNCATE;
	if (version < 5)
		rules.fs &= ~FS_IOCTL_DEV;
	return must(syscall(SYS_landlock_create_ruleset, &rules, size, 0), "Landlock");
}

static void landlock_restrict(int ruleset)
{
	must(syscall(SYS_landlock_restrict_self, ruleset, 0), "Landlock");
	close(ruleset);
}

static __u64 change(int version)
{
	return CHANGE & ~(version < 2 ? LANDLOCK_ACCESS_FS_REFER : 0) & ~(version < 3 ? FS_TRUNCATE : 0);
}

static void landlock(int version, const int places[PLACES], int kernel)
{
	int fd = landlock_ruleset(version, (struct ruleset){ EVERYTHING, NET_TCP, SCOPED });

	landlock_allow(fd, places[GUEST], READ);
	landlock_allow(fd, places[CODE], READ);
	landlock_allow(fd, places[RUN], READ | change(version));
	landlock_allow(fd, kernel, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE);
	landlock_restrict(fd);
}

/* The keeper's: its signals reach those that come of it, and no one else. */
static void keep_signals_in(int version)
{
	landlock_restrict(landlock_ruleset(version, (struct ruleset){ 0, 0, SCOPE_SIGNALS }));
	if (getppid() > 0 && kill(getppid(), 0) == 0) {
		fputs("jail: this host's Landlock lets signals out\n", stderr);
		exit(EXIT_NO_JAIL);
	}
}

/* Namespaces */

static void write_map(const char *file, const char *format, ...)
{
	char text[64];
	va_list list;
	int fd = must(open(file, O_WRONLY | O_CLOEXEC), file);

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	must(write(fd, text, strlen(text)), file);
	close(fd);
}

/* With privileges of its own (root) a user namespace would only take them away: other users' directories. */
static void unshare_all(int flags)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();

	flags |= CLONE_NEWNS | CLONE_NEWPID;
	if (unshare(flags) < 0) {
		must(unshare(flags | CLONE_NEWUSER), "making namespaces");
		write_map("/proc/self/setgroups", "deny");
		write_map("/proc/self/uid_map", "%u %u 1", uid, uid);
		write_map("/proc/self/gid_map", "%u %u 1", gid, gid);
	}
	must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "making mounts private");
}

static void restrict_mount(const char *path, const char *place, unsigned long flags)
{
	struct statfs mounted; /* what it may not do stays so: ST_NODEV is MS_NODEV, … */

	must(statfs(place, &mounted), path);
	flags |= mounted.f_flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC);
	if (mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | flags, NULL) < 0)
		fail("restricting the mount of %s", path);
}

/* What is at `path` is at `place`, too, without the mounts below it. */
static void mount_place(const char *path, const char *place, unsigned long flags)
{
	if (mount(path, place, NULL, MS_BIND, NULL) < 0)
		fail("binding %s (an ordinary user can do it where no file system is mounted below it)", path);
	restrict_mount(path, place, flags);
}

/* What is at /proc becomes the root. */
static void go_to_root(void)
{
	must(chdir("/proc"), "chdir");
	must(syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "leaving the host's files");
	must(chdir("/"), "chdir");
}

/* A root directory that has the three places and nothing else. By means that hosts had before Linux 5.12, too. */
static void enter_root(const char *const paths[PLACES], int places[PLACES])
{
	const unsigned long harmless = MS_NOSUID | MS_NODEV; /* not NOEXEC: access(2) would tell hostfs */
	const unsigned long empty = harmless | MS_NOEXEC;
	char place[PLACES][16];

	must(mount("jail", "/proc", "tmpfs", empty, "mode=0755"), "mounting the jail's root");
	for (int i = 0; i < PLACES; i++) {
		snprintf(place[i], sizeof(place[i]), "/proc/%s", names[i]);
		must(mkdir(place[i], 0755), names[i]);
		mount_place(paths[i], place[i], i == RUN ? harmless : harmless | MS_RDONLY);
		places[i] = must(open(place[i], O_PATH | O_DIRECTORY | O_CLOEXEC), paths[i]);
	}
	must(mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | empty, NULL), "the jail's root");
	go_to_root();
}

static void drop_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = {};

	for (int capability = 0; prctl(PR_CAPBSET_DROP, capability) == 0; capability++)
		;
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	must(syscall(SYS_capset, &header, none), "capset");
	must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
}

/* Ends as a child did that ended with this status. */
__attribute__((noreturn)) static void end_as(int status, bool process_1)
{
	int code = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);

	if (!process_1 && code > SIGNALLED) {
		sigset_t none;

		sigemptyset(&none);
		signal(code - SIGNALLED, SIG_DFL);
		raise(code - SIGNALLED);
		sigprocmask(SIG_SETMASK, &none, NULL);
	}
	_exit(code);
}

static void close_standard(void)
{
	for (int fd = 0; fd <= LAST_KEPT_FD; fd++)
		if (fd != STDERR_FILENO)
			close(fd);
}

/* Process 1 of the namespace, to which no signal of its own namespace does anything: all others end with it. */
__attribute__((noreturn)) static void be_process_1(pid_t child)
{
	int status;

	close_standard();
	close(STDERR_FILENO);
	while (waitpid(child, &status, 0) != child)
		;
	end_as(status, true);
}

/* What the keeper looks at; no memory: at nothing. */
struct guest {
	int proc;
	long mib;
};

/*
 * Waits for the child, or for SIGTERM, which comes also when the parent has ended. With `mode` LANDLOCK the
 * signal to "all" reaches, at once, all that have come of the child, and keep_signals_in() keeps it from others:
 * none can fork, or leave its parents, faster.
 */
__attribute__((noreturn)) static void keep(pid_t child, enum mode mode, const struct guest *guest, const sigset_t *wakes)
{
	/* a large guest has more to look at */
	const struct timespec look = { .tv_sec = guest->mib / LARGE_MIB, .tv_nsec = LOOK_NS };
	const char *passed = NULL;
	bool ended = false;
	int status, last;
	pid_t pid;

	close_standard();
	while (!ended) {
		if (sigtimedwait(wakes, NULL, guest->mib && !passed ? &look : NULL) == SIGTERM)
			kill(child, SIGKILL);
		while (!ended && (pid = waitpid(-1, &status, WNOHANG)) > 0)
			ended = pid == child;
		if (ended || !guest->mib || passed)
			continue;
		passed = passed_limit(guest->proc, mode == LANDLOCK ? getpid() : child, guest->mib);
		if (passed)
			kill(child, SIGKILL);
	}
	if (mode == LANDLOCK)
		do
			kill(-1, SIGKILL);
		while (waitpid(-1, &last, 0) > 0);
	if (passed) {
		fprintf(stderr, "jail: the guest had %s and was ended\n", passed);
		_exit(EXIT_LIMIT);
	}
	end_as(status, false);
}

/*
 * Goes on as the child of the keeper, which is the process that is known outside; in a PID namespace as its
 * process 1. It ends with the keeper.
 */
static void enter_child(enum mode mode, int version, const struct guest *guest)
{
	sigset_t wakes, before;
	int alive[2];
	char byte;
	pid_t child;

	signal(SIGCHLD, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	sigemptyset(&wakes);
	sigaddset(&wakes, SIGCHLD);
	sigaddset(&wakes, SIGTERM);
	must(sigprocmask(SIG_BLOCK, &wakes, &before), "sigprocmask");
	if (mode == LANDLOCK) {
		drop_privileges();
		keep_signals_in(version);
		must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper");
	}
	must(pipe2(alive, O_CLOEXEC | O_NONBLOCK), "pipe");
	child = must(fork(), "fork");
	if (child) {
		close(alive[0]);
		keep(child, mode, guest, &wakes);
	}
	close(alive[1]);
	close(guest->proc);
	must(prctl(PR_SET_PDEATHSIG, SIGKILL), "pdeathsig");
	if (read(alive[0], &byte, 1) == 0)
		_exit(EXIT_NO_JAIL); /* the keeper was killed before that held */
	close(alive[0]);
	sigdelset(&before, SIGCHLD);
	sigdelset(&before, SIGTERM);
	must(sigprocmask(SIG_SETMASK, &before, NULL), "sigprocmask");
}

/* What this process was started with, but for the standard descriptors. */
static void close_others(void)
{
	DIR *open_fds = opendir("/proc/self/fd");

	if (!open_fds)
		fail("/proc/self/fd");
	for (struct dirent *entry; (entry = readdir(open_fds));)
		if (atoi(entry->d_name) >= LAST_KEPT_FD && atoi(entry->d_name) != dirfd(open_fds))
			close(atoi(entry->d_name));
	closedir(open_fds);
}

static void pin_and_limit(int cpu)
{
	struct rlimit no_core = { 0, 0 };
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	must(sched_setaffinity(0, sizeof(cpus), &cpus), "pinning to the CPU");
	must(setrlimit(RLIMIT_CORE, &no_core), "RLIMIT_CORE");
	must(personality(ADDR_NO_RANDOMIZE), "personality"); /* else the kernel would set it and start again */
}

/* The kernel's arguments: its places first. Where they are reached by descriptors, these stay open. */
static char **arguments(enum mode mode, const int places[PLACES], char **given, int count)
{
	static const char *const formats[] = {
		"hostfs_ro=%s", "hostfs_ro=%s", "hostfs_rw=%s", "rootflags=%s", "CODE_DIR=%s", "RUN_DIR=%s",
	};
	char **all = calloc(ARRAY_SIZE(formats) + count + 2, sizeof(char *)), **next = all;
	char place[PLACES][40];

	for (int i = 0; i < PLACES; i++) {
		if (mode == NAMESPACES)
			snprintf(place[i], sizeof(place[i]), "/%s", names[i]);
		else
			snprintf(place[i], sizeof(place[i]), "/proc/self/fd/%d/.", places[i]);
		must(fcntl(places[i], F_SETFD, mode == NAMESPACES ? FD_CLOEXEC : 0), "F_SETFD");
	}
	*next++ = "linux";
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		must(asprintf(next++, formats[i], place[i % PLACES]), "memory");
	memcpy(next, given, count * sizeof(char *));
	return all;
}

static enum mode mode_called(const char *name)
{
	enum mode mode = 0;

	while (mode < MODES && strcmp(modes[mode], name) != 0)
		mode++;
	return mode;
}

/* Builds */

/* Of the system, what compilers are and read. /bin and so on may be links to what is in /usr. */
static const char *const system_places[] = {
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl", "/etc/pki",
	"/etc/ca-certificates", "/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
	"/etc/localtime",
};
static const char *const devices[] = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" };

struct job {
	const char *out, *const *readable;
	size_t readable_count;
	bool network;
	char **command;
};

/* The directories on the way to a place below the new root, and it. */
static void make_place(char *place, bool is_directory)
{
	for (char *end = place + 1; (end = strchr(end, '/')); end++) {
		*end = '\0';
		if (mkdir(place, 0755) < 0 && errno != EEXIST)
			fail("%s", place);
		*end = '/';
	}
	if (is_directory ? mkdir(place, 0755) : mknod(place, S_IFREG | 0644, 0))
		if (errno != EEXIST)
			fail("%s", place);
}

/* What is at `path` is there below the new root, too; if there is nothing, nothing. */
static void show(const char *path, unsigned long flags)
{
	struct mount_attr restricted = {
		.attr_set = MOUNT_ATTR_NOSUID | (flags & MS_NODEV ? MOUNT_ATTR_NODEV : 0) |
			    (flags & MS_RDONLY ? MOUNT_ATTR_RDONLY : 0),
	};
	char place[PATH_MAX], target[PATH_MAX];
	struct stat status;
	ssize_t length;

	if (lstat(path, &status) < 0)
		return;
	if (snprintf(place, sizeof(place), "/proc%s", path) >= (int)sizeof(place)) {
		errno = ENAMETOOLONG;
		fail("%s", path);
	}
	if (S_ISLNK(status.st_mode) && strncmp(path, "/etc/", 5) != 0) {
		length = must(readlink(path, target, sizeof(target) - 1), path);
		target[length] = '\0';
		make_place(place, true);
		must(rmdir(place), place);
		must(symlink(target, place), place);
		return;
	}
	if (stat(path, &status) < 0)
		return;
	make_place(place, S_ISDIR(status.st_mode));
	if (mount(path, place, NULL, MS_BIND, NULL) == 0) {
		restrict_mount(path, place, flags);
		return;
	}
	/* of an ordinary user it wants what is mounted below it, too, which only newer hosts restrict with it */
	must(mount(path, place, NULL, MS_BIND | MS_REC, NULL), path);
	must(syscall(SYS_mount_setattr, AT_FDCWD, place, AT_RECURSIVE, &restricted, sizeof(restricted)), path);
}

static void show_for_build(const struct job *job)
{
	const unsigned long harmless = MS_NOSUID | MS_NODEV;

	must(mount("jail", "/proc", "tmpfs", harmless, "mode=0755"), "mounting the jail's root");
	for (size_t i = 0; i < ARRAY_SIZE(system_places); i++)
		show(system_places[i], harmless | MS_RDONLY);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		show(devices[i], MS_NOSUID);
	for (size_t i = 0; i < job->readable_count; i++)
		show(job->readable[i], harmless | MS_RDONLY);
	show(job->out, harmless);
	must(mkdir("/proc/proc", 0555), "/proc");
	mount("proc", "/proc/proc", "proc", harmless | MS_NOEXEC, NULL); /* not where a container hides parts of it */
	must(mount(NULL, "/proc", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | harmless, NULL), "the jail's root");
	go_to_root();
}

static void landlock_path(int ruleset, const char *path, __u64 access)
{
	struct stat status;
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return;
	must(fstat(fd, &status), path);
	if (!S_ISDIR(status.st_mode))
		access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE;
	landlock_allow(ruleset, fd, access);
	close(fd);
}

static void landlock_for_build(enum mode mode, int version, const struct job *job)
{
	const __u64 use = READ | LANDLOCK_ACCESS_FS_EXECUTE;
	int fd = landlock_ruleset(version, (struct ruleset){ EVERYTHING, job->network ? 0 : NET_TCP, SCOPED });

	for (size_t i = 0; i < ARRAY_SIZE(system_places); i++)
		landlock_path(fd, system_places[i], use);
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
		landlock_path(fd, devices[i], LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
	for (size_t i = 0; i < job->readable_count; i++)
		landlock_path(fd, job->readable[i], use);
	landlock_path(fd, job->out, use | change(version));
	if (mode == NAMESPACES)
		landlock_path(fd, "/", READ); /* the jail's own */
	landlock_restrict(fd);
}

/* That a mode cannot be changed is not told: compilers and make go on, and what they make has the mode it was made with. */
static void filter_build(enum mode mode, bool network)
{
	if (network)
		check_call(refused, ARRAY_SIZE(refused), SYS_socket, internet, ARRAY_SIZE(internet));
	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		if (mode == LANDLOCK)
			check_call(refused, ARRAY_SIZE(refused), attributes[i], done_already, ARRAY_SIZE(done_already));
		else if (attributes[i] != SYS_chmod && attributes[i] != SYS_fchmod && attributes[i] != SYS_fchmodat)
			check_call(refused, ARRAY_SIZE(refused), attributes[i], always, ARRAY_SIZE(always));
	filter_calls(refused, ARRAY_SIZE(refused), (struct sock_filter)DENY, (struct sock_filter)ALLOW);
}

__attribute__((noreturn)) static void build(enum mode mode, int version, const struct job *job)
{
	const struct guest not_looked_at = { -1, 0 };
	const int flags = CLONE_NEWIPC | (job->network ? 0 : CLONE_NEWNET);
	struct rlimit no_core = { 0, 0 };
	pid_t child;

	must(setrlimit(RLIMIT_CORE, &no_core), "RLIMIT_CORE");
	if (mode == NAMESPACES)
		unshare_all(flags);
	enter_child(mode, version, &not_looked_at);
	if (mode == NAMESPACES) {
		show_for_build(job);
		if (chdir(job->out) < 0)
			fail("%s", job->out);
	}
	drop_privileges();
	if (mode == NAMESPACES && (child = must(fork(), "fork")))
		be_process_1(child);
	if (mode != NONE && version > 0)
		landlock_for_build(mode, version, job);
	if (mode != NONE)
		filter_build(mode, job->network);
	execvp(job->command[0], job->command);
	fail("starting %s", job->command[0]);
}

static void need_landlock(enum mode mode, int version)
{
	if (mode != LANDLOCK || version >= VERSION_SCOPED)
		return;
	fprintf(stderr, "jail: this host's Landlock has version %d; %d is needed, before it signals reach any process\n",
		version < 0 ? 0 : version, VERSION_SCOPED);
	exit(EXIT_NO_JAIL);
}

/* The kernel's argument mem=512M. */
static long memory_mib(char **arguments)
{
	for (; *arguments; arguments++)
		if (strncmp(*arguments, "mem=", 4) == 0 && atol(*arguments + 4) > 0)
			return atol(*arguments + 4);
	return GUEST_MIB;
}

static int usage(void)
{
	fputs("usage: jail namespaces|landlock|none CPU GUEST CODE RUN KERNEL [ARGUMENT]...\n"
	      "       jail namespaces|landlock|none --build OUT [--network] [READABLE]... -- COMMAND [ARGUMENT]...\n", stderr);
	return 2;
}

/* jail MODE --build OUT [--network] [READABLE]... -- COMMAND [ARGUMENT]... */
static int prepare_build(char **argv)
{
	struct job job = { .out = argv[3], .readable = (const char *const *)argv + 4 };
	enum mode mode = mode_called(argv[1]);
	int version = landlock_version();
	char **next = argv + 4;

	if (*next && strcmp(*next, "--network") == 0) {
		job.network = true;
		job.readable++;
		next++;
	}
	for (; *next && strcmp(*next, "--") != 0; next++)
		job.readable_count++;
	if (mode == MODES || !*next || !next[1])
		return usage();
	job.command = next + 1;
	must(prctl(PR_SET_PDEATHSIG, SIGTERM), "pdeathsig");
	setsid();
	close_others();
	must(open("/dev/null", O_RDWR | O_CLOEXEC), "/dev/null");
	need_landlock(mode, version);
	build(mode, version, &job);
}

int main(int argc, char **argv)
{
	int places[PLACES], version = landlock_version(), kernel;
	char *const environment[] = { "HOME=/", NULL }; /* where its text ends, the kernel takes it, its stack does */
	struct guest guest = { -1, 0 };
	enum mode mode;
	pid_t child;

	if (argc > 1 && strcmp(argv[0], "linux") == 0 && strcmp(argv[argc - 1], "--inside") == 0)
		return 0;
	if (argc > 5 && strcmp(argv[2], "--build") == 0)
		return prepare_build(argv);
	if (argc < 7 || (mode = mode_called(argv[1])) == MODES)
		return usage();
	must(prctl(PR_SET_PDEATHSIG, SIGTERM), "pdeathsig");
	setsid(); /* the terminal's Ctrl-C is not for the guest */
	close_others();
	must(open("/dev/null", O_RDWR), "/dev/null"); /* LAST_KEPT_FD: what the guest's console reads */
	kernel = must(open(argv[6], O_RDONLY | O_CLOEXEC), argv[6]);
	pin_and_limit(atoi(argv[2]));
	if (mode != NONE)
		guest = (struct guest){ open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), memory_mib(argv + 7) };
	if (mode == NAMESPACES) {
		unshare_all(0);
		enter_root((const char *const *)argv + 3, places);
	} else {
		for (int i = 0; i < PLACES; i++)
			places[i] = must(open(argv[3 + i], O_PATH | O_DIRECTORY), argv[3 + i]);
	}
	need_landlock(mode, version);
	enter_child(mode, version, &guest);
	drop_privileges();
	if (mode == NAMESPACES && (child = must(fork(), "fork")))
		be_process_1(child);
	set_limits(guest.mib);
	if (mode != NONE && version > 0)
		landlock(version, places, kernel);
	argv = arguments(mode, places, argv + 7, argc - 7);
	for (size_t i = 0; mode == LANDLOCK && i < ARRAY_SIZE(attributes); i++)
		check_call(calls, ARRAY_SIZE(calls), attributes[i], never, ARRAY_SIZE(never));
	filter_calls(calls, ARRAY_SIZE(calls), (struct sock_filter)ALLOW, (struct sock_filter)DENY);
	execveat(kernel, "", argv, environment, AT_EMPTY_PATH);
	fail("starting the kernel");
}
