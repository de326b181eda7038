/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lines for a file or a reader. The proxy never waits for a reader: what it does not take waits here, what has no room is dropped. */
#ifndef SATPEP_LOG_H
#define SATPEP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_BYTES = 1 << 20 };

struct log {
	char *name; /* absolute; NULL: the standard output */
	int fd;	    /* -1: nobody wants any */
	bool blocked, overflowed;
	size_t bytes;	   /* of whole lines that wait, */
	size_t line_bytes; /* and of the line behind them that is being written */
	uint64_t dropped;  /* lines */
	char text[LOG_BYTES];
};

/* `name` as -l takes it, NULL for none. The file belongs to `user` afterwards ("": it stays root's). false with a message on stderr. */
bool log_open(struct log *log, const char *name, const char *user);

/* The same name again, for a file that was moved away. With a message on stderr it goes on in the old one if that is not possible. */
void log_reopen(struct log *log);

/* Part of a line; log_end() ends it. */
void log_add(struct log *log, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_end(struct log *log);

/* Writes what can be written now. */
void log_flush(struct log *log);

/* Writes all that waits; a reader has a second to take more of it. */
void log_wait(struct log *log);

/* Likewise, and closes it. */
void log_close(struct log *log);

#endif
