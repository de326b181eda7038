// SPDX-License-Identifier: GPL-2.0
/*
 * What capture.c needs of the host: memory for packets that are on their way to
 * it, and that way. A pipe takes the pages themselves, so nothing is copied here.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
#include "capture_user.h"

/* Shared by all processes that the kernel runs in (in_place.c). */
void *capture_memory(unsigned long size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* What a pipe can hold; -1 if it is none. */
int capture_pipe_size(int fd)
{
	return fcntl(fd, F_GETPIPE_SZ);
}

/* Returns how much of it was taken, or the error's number below 0. */
int capture_write(int fd, void *data, unsigned long len, int as_pages)
{
	struct iovec part = { .iov_base = data, .iov_len = len };
	int done = as_pages ? vmsplice(fd, &part, 1, 0) : write(fd, data, len);

	return done < 0 ? -errno : done;
}
