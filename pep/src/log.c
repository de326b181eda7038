// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "privileges.h"

enum { LAST_WORDS_MS = 1000 };

static int open_file(const char *name)
{
	return open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
}

/* A pipe or a socket without O_NONBLOCK would make the proxy wait for its reader. */
static void never_wait(int fd)
{
	struct stat what;
	if (!fstat(fd, &what) && (S_ISFIFO(what.st_mode) || S_ISSOCK(what.st_mode)))
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void give_to(const char *user, int fd)
{
	uid_t uid;
	gid_t gid;
	struct stat what;
	if (*user && !fstat(fd, &what) && S_ISREG(what.st_mode) && privileges_find(user, &uid, &gid) && fchown(fd, uid, gid))
		fprintf(stderr, "satpep: giving the log to %s: %s; it cannot be opened again\n", user, strerror(errno));
}

bool log_open(struct log *log, const char *name, const char *user)
{
	log->fd = -1;
	if (!name)
		return true;
	log->fd = strcmp(name, "-") ? open_file(name) : STDOUT_FILENO;
	if (log->fd >= 0 && log->fd != STDOUT_FILENO)
		log->name = realpath(name, NULL);
	if (log->fd < 0 || (log->fd != STDOUT_FILENO && !log->name)) {
		fprintf(stderr, "satpep: -l %s: %s\n", name, strerror(errno));
		return false;
	}
	if (log->name)
		give_to(user, log->fd);
	never_wait(log->fd);
	return true;
}

void log_reopen(struct log *log)
{
	if (!log->name)
		return;
	log_flush(log);
	int fd = open_file(log->name);
	if (fd < 0) {
		fprintf(stderr, "satpep: opening %s again: %s; it goes on in the old file\n", log->name, strerror(errno));
		return;
	}
	close(log->fd);
	log->fd = fd;
	log->blocked = false;
}

void log_add(struct log *log, const char *format, ...)
{
	if (log->fd < 0 || log->overflowed)
		return;
	size_t used = log->bytes + log->line_bytes;
	va_list values;
	va_start(values, format);
	int bytes = vsnprintf(log->text + used, sizeof(log->text) - used, format, values);
	va_end(values);
	log->overflowed = bytes < 0 || used + (size_t)bytes + 1 >= sizeof(log->text); /* room for the line's end */
	if (!log->overflowed)
		log->line_bytes += (size_t)bytes;
}

void log_end(struct log *log)
{
	if (log->fd < 0)
		return;
	if (log->overflowed) {
		log->dropped++;
	} else {
		log->text[log->bytes + log->line_bytes] = '\n';
		log->bytes += log->line_bytes + 1;
	}
	log->overflowed = false;
	log->line_bytes = 0;
}

/* What an error has swallowed: from the first line that was not written at all. */
static void drop(struct log *log)
{
	for (const char *end = log->text; (end = memchr(end, '\n', log->bytes - (size_t)(end - log->text))); end++)
		log->dropped++;
	log->bytes = 0;
}

void log_flush(struct log *log)
{
	if (log->fd < 0 || !log->bytes || log->blocked)
		return;
	ssize_t written = write(log->fd, log->text, log->bytes);
	if (written < 0 && errno == EAGAIN) {
		log->blocked = true;
	} else if (written < 0 && errno != EINTR) {
		drop(log); /* a full disk, say */
	} else if (written > 0) {
		log->bytes -= (size_t)written;
		memmove(log->text, log->text + written, log->bytes);
		log->blocked = log->bytes > 0;
	}
}

void log_wait(struct log *log)
{
	struct pollfd reader = {.fd = log->fd, .events = POLLOUT};
	log->blocked = false;
	for (log_flush(log); log->bytes && poll(&reader, 1, LAST_WORDS_MS) == 1 && !(reader.revents & POLLERR); log_flush(log))
		log->blocked = false;
}

void log_close(struct log *log)
{
	log_wait(log);
	if (log->fd > STDERR_FILENO)
		close(log->fd);
	free(log->name);
	log->fd = -1;
}
