/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CAPTURE_USER_H
#define CAPTURE_USER_H

void *capture_memory(unsigned long size);
int capture_pipe_size(int fd);
int capture_write(int fd, void *data, unsigned long len, int as_pages);

#endif
