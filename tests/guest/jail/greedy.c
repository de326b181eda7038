/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stands in the jail in place of a guest's kernel, and takes more of the host than a guest may
 * have, in one of the ways below, where the files of a run's directory do not show it. Then it
 * waits for its end. "second thread" takes nothing, and ends.
 *
 *   greedy RUN_DIR=PLACE … WAY
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MIB	(1 << 20)
#define MUCH	(150L * MIB)

static char part[MIB];
static char stack[1 << 16] __attribute__((aligned(16)));

static const char *place(char **argv, const char *name)
{
	for (; *argv; argv++)
		if (strncmp(*argv, name, strlen(name)) == 0)
			return *argv + strlen(name);
	exit(3);
}

static void stay(void)
{
	for (;;)
		pause();
}

static int filled(int fd, long bytes)
{
	for (long done = 0; done < bytes; done += sizeof(part))
		if (write(fd, part, sizeof(part)) != sizeof(part))
			exit(4);
	return fd;
}

static int unlinked(int directory)
{
	int fd = openat(directory, "file", O_CREAT | O_EXCL | O_RDWR, 0600);

	unlinkat(directory, "file", 0);
	return filled(fd, MUCH);
}

static void use_memory(int flags)
{
	memset(mmap(NULL, MUCH, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0), 1, MUCH);
}

static void be_many(int more)
{
	for (int i = 0; i < 600; i++)
		if (syscall(SYS_clone, more | SIGCHLD, NULL, NULL, NULL, 0) == 0) {
			setsid();
			stay();
		}
}

static int with_file(void *directory)
{
	unlinked(*(int *)directory);
	stay();
	return 0;
}

static int with_memory(void *unused)
{
	(void)unused;
	use_memory(MAP_PRIVATE);
	stay();
	return 0;
}

/* Some looks long. */
static int ends_well(void *unused)
{
	const struct timespec long_enough = { .tv_sec = 1 };

	(void)unused;
	nanosleep(&long_enough, NULL);
	exit(0);
}

/* Goes on as a second thread, after the end of the first one: then /proc/self/fd is empty. */
static void go_on_as(int (*second)(void *), int *directory)
{
	const int thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			   CLONE_SYSVSEM;

	if (clone(second, stack + sizeof(stack), thread, directory) < 0)
		exit(5);
	syscall(SYS_exit, 0);
}

int main(int argc, char **argv)
{
	int run = open(place(argv, "RUN_DIR="), O_RDONLY | O_DIRECTORY), fd;
	const char *way = argv[argc - 1];

	if (strcmp(way, "processes") == 0)
		be_many(0);
	if (strcmp(way, "siblings") == 0)
		be_many(CLONE_PARENT);
	if (strcmp(way, "memory") == 0 || strcmp(way, "/init.py") == 0) /* the latter: in place of a real kernel */
		use_memory(MAP_PRIVATE);
	if (strcmp(way, "shared memory") == 0)
		use_memory(MAP_SHARED);
	if (strcmp(way, "memory files") == 0)
		for (int i = 0; i < 6; i++)
			filled(memfd_create("more", 0), MUCH);
	if (strcmp(way, "open file") == 0)
		unlinked(run);
	if (strcmp(way, "mapped file") == 0) {
		fd = unlinked(run);
		mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (strcmp(way, "child's file") == 0 && fork() == 0) {
		unlinked(run);
		stay();
	}
	if (strcmp(way, "second thread's file") == 0)
		go_on_as(with_file, &run);
	if (strcmp(way, "second thread's memory") == 0)
		go_on_as(with_memory, &run);
	if (strcmp(way, "second thread") == 0)
		go_on_as(ends_well, &run);
	if (strcmp(way, "hidden file") == 0) {
		prctl(PR_SET_DUMPABLE, 0);
		unlinked(run);
	}
	stay();
}
