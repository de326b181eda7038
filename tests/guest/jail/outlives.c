/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stands in the jail in place of a guest's kernel, and leaves processes that want to live on: of other parents, other
 * sessions, without the signal that tells of a parent's death, and one that is another process all the time. All
 * keep standard output open, so that the caller knows when the last one is gone. "ends" as last argument: the kernel
 * ends by itself; else it stays until it is ended.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t sibling(void)
{
	return syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, 0);
}

static void hide(void)
{
	prctl(PR_SET_PDEATHSIG, 0);
	setsid();
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_IGN);
}

static void stay(void)
{
	for (;;)
		pause();
}

static void be_another_one(void)
{
	for (;;)
		if (sibling() > 0)
			_exit(0);
}

int main(int argc, char **argv)
{
	if (fork() == 0) {
		hide();
		if (fork() == 0)
			stay();
		_exit(0);
	}
	if (sibling() == 0) {
		hide();
		stay();
	}
	if (fork() == 0) {
		hide();
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		if (fork() == 0)
			stay();
		stay();
	}
	for (int i = 0; i < 4; i++)
		if (sibling() == 0) {
			hide();
			be_another_one();
		}
	if (write(1, "ready\n", 6) != 6)
		return 2;
	if (strcmp(argv[argc - 1], "ends") != 0)
		stay();
	return 0;
}
