/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The first program of a real guest, which makes system calls of the host: the guest's kernel runs in the process of
 * its program, and the host lets pass what comes from there. So it calls a `syscall; ret` of the kernel's. Prints
 * "through: ATTEMPT" for each that gets out of the jail, and powers the guest off.
 *
 *   raw SECRET RECORD PID ABSTRACT CALL     with RUN_DIR and CODE_DIR in the environment
 *
 * SECRET is a file of the host, RECORD one of another run, PID the caller, ABSTRACT the name of an abstract unix
 * socket that listens, CALL the address of those two instructions.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#define ROOM	4096

static uintptr_t host_call;
static int through;
/* What the host is to read: it finds only pages that the program has touched. */
static char buffer[1 << 16] __attribute__((aligned(4096)));
static char paths[4][ROOM] __attribute__((aligned(4096)));
static uint64_t stack[512] __attribute__((aligned(4096)));

static long raw(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = 0;
	long result;

	__asm__ volatile("call *%[call]"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9), [call] "b"(host_call)
			 : "rcx", "r11", "memory");
	return result;
}

#define A(value)	((long)(value))
#define FIRST(number, a, b, c, d, e, ...) raw(number, A(a), A(b), A(c), A(d), A(e))
#define RAW(...)	FIRST(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

static void check(bool got_through, const char *attempt)
{
	if (got_through) {
		printf("through: %s\n", attempt);
		through++;
	}
}

#define TRY(...)	check(RAW(__VA_ARGS__) >= 0, #__VA_ARGS__)

static char *path(int number, const char *first, const char *second)
{
	snprintf(paths[number], ROOM, "%s%s", first, second);
	return paths[number];
}

static void control(const char *run)
{
	struct stat *status = (void *)buffer;
	long fd;

	if (RAW(SYS_getppid) == getppid() && RAW(SYS_getpid) == getpid())
		check(true, "the calls are not the host's");
	fd = RAW(SYS_open, path(0, run, "/own"), O_CREAT | O_RDWR, 0600);
	if (fd < 0 || RAW(SYS_write, fd, path(1, "x", ""), 1) != 1)
		check(true, "the directory of the run cannot be written, which it should be");
	TRY(SYS_fchmod, fd, 04755);
	TRY(SYS_fchmod, fd, 02755);
	TRY(SYS_fchown, fd, 1, 1);
	RAW(SYS_fstat, fd, status);
	check(status->st_mode & 06000, "a set-id mode");
}

static void files(const char *secret, const char *record, const char *run, const char *code)
{
	const char *const closed[] = { secret, record, "/etc/passwd", "/proc/1/environ", "/proc/self/environ", "/dev/mem" };

	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
		path(0, closed[i], "");
		TRY(SYS_open, paths[0], O_RDONLY);
		TRY(SYS_openat, AT_FDCWD, paths[0], O_WRONLY | O_TRUNC);
	}
	path(0, record, "");
	path(1, record, ".new");
	path(2, run, "/linked");
	TRY(SYS_open, paths[1], O_CREAT | O_WRONLY, 0600);
	TRY(SYS_truncate, paths[0], 0);
	TRY(SYS_unlink, paths[0]);
	TRY(SYS_rename, paths[0], paths[1]);
	TRY(SYS_rename, paths[0], paths[2]);
	TRY(SYS_link, paths[0], paths[2]);
	TRY(SYS_mkdir, paths[1], 0700);
	TRY(SYS_symlink, "x", paths[1]);
	TRY(SYS_chmod, paths[0], 0777);
	TRY(SYS_fchmodat, AT_FDCWD, paths[0], 0777);
	TRY(SYS_chown, paths[0], 1, 1);
	TRY(SYS_utimensat, AT_FDCWD, paths[0], 0, 0);
	path(0, run, "/../other/record.json");
	TRY(SYS_open, paths[0], O_RDONLY);
	TRY(SYS_open, paths[0], O_WRONLY);
	path(0, code, "/kept");
	path(1, code, "/new");
	TRY(SYS_open, paths[0], O_WRONLY);
	TRY(SYS_open, paths[1], O_CREAT | O_WRONLY, 0600);
	TRY(SYS_unlink, paths[0]);
	TRY(SYS_link, paths[0], paths[2]);
	check(RAW(SYS_fchmod, RAW(SYS_open, paths[0], O_RDONLY), 0) >= 0, "fchmod of the code");
	path(0, run, "/set-id");
	TRY(SYS_open, paths[0], O_CREAT | O_WRONLY, 04755);
	TRY(SYS_mknod, paths[0], S_IFREG | 02755, 0);
	TRY(SYS_mknod, paths[0], S_IFCHR | 0666, makedev(1, 1));
	TRY(SYS_mknod, paths[0], S_IFCHR | 0666, 0);
	path(1, run, "/own");
	TRY(SYS_renameat2, AT_FDCWD, paths[1], AT_FDCWD, paths[0], RENAME_WHITEOUT);
}

static void processes(long parent)
{
	TRY(SYS_kill, parent, 0);
	TRY(SYS_kill, parent, SIGKILL);
	TRY(SYS_tgkill, parent, parent, SIGKILL);
	TRY(SYS_ptrace, 16 /* PTRACE_ATTACH */, parent);
	TRY(SYS_process_vm_readv, parent, buffer, 1, buffer, 1);
	TRY(SYS_pidfd_open, parent, 0);
	TRY(SYS_prlimit64, parent, 7, 0, buffer);
	TRY(SYS_sched_setaffinity, parent, 8, buffer);
	TRY(SYS_unshare, CLONE_NEWUSER);
	TRY(SYS_setns, 0, 0);
	TRY(SYS_clone, CLONE_NEWUSER | SIGCHLD);
	TRY(SYS_clone3, buffer, 88);
	TRY(SYS_setuid, 0x1234);
	TRY(SYS_execve, path(0, "/bin/sh", ""), buffer, buffer);
}

static void network(const char *abstract)
{
	struct sockaddr_un *address = (void *)buffer;
	int *pair = (void *)(buffer + ROOM);

	TRY(SYS_socket, AF_INET, SOCK_STREAM, 0);
	TRY(SYS_socket, AF_INET6, SOCK_DGRAM, 0);
	TRY(SYS_socket, AF_UNIX, SOCK_STREAM, 0);
	TRY(SYS_socket, AF_UNIX, SOCK_DGRAM, 0);
	TRY(SYS_socket, AF_NETLINK, SOCK_RAW, 0);
	TRY(SYS_socket, AF_PACKET, SOCK_RAW, 0);
	TRY(SYS_socketpair, AF_UNIX, SOCK_DGRAM, 0, pair);
	TRY(SYS_connect, 0, buffer, 16);
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	strncpy(address->sun_path + 1, abstract, sizeof(address->sun_path) - 2);
	RAW(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair);
	TRY(SYS_sendto, pair[0], buffer + 2 * ROOM, 1, 0, address);
}

static void kernel(void)
{
	path(0, "/", "");
	TRY(SYS_io_uring_setup, 1, buffer);
	TRY(SYS_bpf, 0, buffer, 72);
	TRY(SYS_perf_event_open, buffer, 0, -1, -1, 0);
	TRY(SYS_userfaultfd, 0);
	TRY(SYS_keyctl, 0, -3, 0);
	TRY(SYS_mount, paths[0], paths[0], 0, 4096, 0);
	TRY(SYS_umount2, paths[0], 2);
	TRY(SYS_pivot_root, paths[0], paths[0]);
	TRY(SYS_open_tree, AT_FDCWD, paths[0], 1);
	TRY(SYS_fsopen, path(1, "tmpfs", ""), 0);
	TRY(SYS_init_module, buffer, 1, buffer);
	TRY(SYS_open_by_handle_at, AT_FDCWD, buffer, O_RDONLY);
	TRY(SYS_name_to_handle_at, AT_FDCWD, paths[0], buffer, buffer, 0);
	TRY(SYS_inotify_init1, 0);
	TRY(SYS_personality, 0);
	TRY(SYS_shmget, 0, 4096, 0666 | 01000);
	TRY(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, buffer);
	TRY(0x40000000 + SYS_getpid);
}

/* A process of the host of which the guest's kernel knows nothing. It has standard output: the caller sees its end. */
static void outlive(void)
{
	uint64_t *top = &stack[500];

	__asm__ volatile("lea 1f(%%rip), %%rax\n\t"
			 "mov %%rax, (%[top])\n\t"
			 "mov %[number], %%eax\n\t"
			 "call *%[call]\n\t"
			 "jmp 2f\n"
			 "1:\tmov $34, %%eax\n\t" /* pause */
			 "call *%[call]\n\t"
			 "jmp 1b\n"
			 "2:\n"
			 :
			 : [top] "S"(top), "D"(A(CLONE_PARENT | SIGCHLD)), "d"(0L), [call] "b"(host_call), [number] "i"(SYS_clone)
			 : "rax", "rcx", "r11", "memory");
}

int main(int argc, char **argv)
{
	const char *run = getenv("RUN_DIR"), *code = getenv("CODE_DIR");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 6 || !run || !code) {
		for (int i = 0; i < argc; i++)
			printf("argument %d: %s\n", i, argv[i]);
		reboot(RB_POWER_OFF);
	}
	host_call = strtoul(argv[5], NULL, 16);
	memset(buffer, 0, sizeof(buffer));
	memset(paths, 0, sizeof(paths));
	memset(stack, 0, sizeof(stack));
	control(run);
	network(argv[4]);
	kernel();
	files(argv[1], argv[2], run, code);
	processes(atol(argv[3]));
	outlive();
	printf("%d got through\n", through);
	reboot(RB_POWER_OFF);
	return 1;
}
