/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the programs share that try every way out of the jail: attempts.c and evil.c. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static int through;

static void check(bool got_through, const char *attempt)
{
	if (got_through) {
		printf("through: %s\n", attempt);
		through++;
	}
}

#define TRY(call)	check((call) >= 0, #call)
