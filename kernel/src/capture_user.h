/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CAPTURE_USER_H
#define CAPTURE_USER_H

extern void *capture_memory(unsigned long size);
extern int capture_pipe_size(int fd);
extern int capture_write(int fd, void *data, unsigned long len, int as_pages);

#endif
