// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURN_BYTES = 256 << 10, COPY_BYTES = 64 << 10 };

static void close_both(int pipe[2])
{
	close(pipe[0]);
	close(pipe[1]);
	pipe[0] = pipe[1] = -1;
}

bool pipes_init(struct pipes *pipes, int most, int bytes)
{
	*pipes = (struct pipes){.most = most, .bytes = bytes};
	pipes->spare = calloc((size_t)most, sizeof(*pipes->spare));
	return pipes->spare;
}

void pipes_free(struct pipes *pipes)
{
	while (pipes->spares--)
		close_both(pipes->spare[pipes->spares]);
	free(pipes->spare);
}

static bool lend(struct pipes *pipes, struct relay *relay)
{
	if (pipes->spares) {
		pipes->spares--;
		relay->pipe[0] = pipes->spare[pipes->spares][0];
		relay->pipe[1] = pipes->spare[pipes->spares][1];
		return true;
	}
	if (pipes->made >= pipes->most || pipe2(relay->pipe, O_NONBLOCK | O_CLOEXEC)) {
		relay->pipe[0] = relay->pipe[1] = -1;
		return false;
	}
	if (fcntl(relay->pipe[1], F_SETPIPE_SZ, pipes->bytes) < 0) {
		fprintf(stderr, "satpep: a pipe of %d bytes: %s; no more than %d pipes, the rest is copied (fs.pipe-user-pages-soft)\n",
			pipes->bytes, strerror(errno), pipes->made);
		close_both(relay->pipe);
		pipes->most = pipes->made; /* a small one would be slower than a copy */
		return false;
	}
	pipes->made++;
	return true;
}

static void take_back(struct pipes *pipes, struct relay *relay)
{
	if (relay->pipe[0] < 0)
		return;
	if (relay->held_bytes) {
		close_both(relay->pipe);
		pipes->made--;
	} else {
		pipes->spare[pipes->spares][0] = relay->pipe[0];
		pipes->spare[pipes->spares][1] = relay->pipe[1];
		pipes->spares++;
	}
	relay->pipe[0] = relay->pipe[1] = -1;
	relay->held_bytes = 0;
}

void relay_init(struct relay *relay)
{
	*relay = (struct relay){.pipe = {-1, -1}};
}

void relay_end(struct relay *relay, struct pipes *pipes)
{
	take_back(pipes, relay);
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINPROGRESS; /* the latter: a fast open on its way */
}

static enum relayed from_failed(struct relay *relay)
{
	relay->broken = true;
	relay->error = errno;
	return RELAY_FROM_FAILED;
}

static enum relayed to_failed(struct relay *relay)
{
	relay->error = errno;
	return RELAY_TO_FAILED;
}

/* Nothing more comes: a FIN, or a reset whose error was taken before. */
static enum relayed end_of(struct relay *relay, const struct leg *from)
{
	if (from->failed) {
		errno = ECONNRESET;
		return from_failed(relay);
	}
	relay->ended = true;
	return RELAY_WAITS;
}

/* From the socket into the pipe. */
static enum relayed fill(struct relay *relay, int pipe_bytes, struct leg *from)
{
	ssize_t moved = splice(from->fd, NULL, relay->pipe[1], NULL, (size_t)pipe_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved > 0)
		relay->held_bytes += (int)moved;
	else if (moved < 0 && !would_block())
		return from_failed(relay);
	else if ((moved == 0 || from->urgent) && leg_is_at_urgent_byte(from))
		from->urgent = true; /* splice does not go past it, and calls it the end if a FIN follows */
	else if (moved == 0)
		return end_of(relay, from);
	else if (!relay->held_bytes) /* or the pipe may be full */
		from->readable = from->urgent = false;
	return moved > 0 || (from->urgent && !relay->held_bytes) ? RELAY_GOES_ON : RELAY_WAITS;
}

static enum relayed passed_on(struct relay *relay, ssize_t moved, struct leg *to)
{
	if (moved > 0) {
		relay->bytes += (uint64_t)moved;
		return RELAY_GOES_ON;
	}
	if (moved < 0 && !would_block())
		return to_failed(relay);
	to->writable = false;
	return RELAY_WAITS;
}

/* From the pipe into the socket. */
static enum relayed drain(struct relay *relay, struct leg *to)
{
	ssize_t moved = splice(relay->pipe[0], NULL, to->fd, NULL, (size_t)relay->held_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved > 0)
		relay->held_bytes -= (int)moved;
	return passed_on(relay, moved, to);
}

/* From socket to socket: only what the receiver takes leaves the sender's queue. */
static enum relayed copy(struct relay *relay, struct leg *from, struct leg *to, size_t most_bytes, int flags)
{
	static char buffer[COPY_BYTES];
	ssize_t seen = recv(from->fd, buffer, most_bytes, MSG_PEEK);
	if (seen == 0)
		return end_of(relay, from);
	if (seen < 0 && !would_block())
		return from_failed(relay);
	if (seen < 0) {
		from->readable = false;
		return RELAY_WAITS;
	}
	ssize_t sent = send(to->fd, buffer, (size_t)seen, MSG_NOSIGNAL | flags);
	if (sent > 0) {
		relay->copied_bytes += (uint64_t)sent;
		recv(from->fd, buffer, (size_t)sent, 0);
	}
	return passed_on(relay, sent, to);
}

/* A byte that is marked as urgent (RFC 6093) goes on as such. The receiver's system keeps one mark, ours and the sender's too. */
static enum relayed pass_urgent(struct relay *relay, struct leg *from, struct leg *to)
{
	enum relayed result = copy(relay, from, to, 1, MSG_OOB);
	if (result == RELAY_GOES_ON)
		from->urgent = false; /* the next one makes an event */
	return result;
}

static enum relayed step(struct relay *relay, struct pipes *pipes, struct leg *from, struct leg *to)
{
	enum relayed filled = RELAY_WAITS, drained = RELAY_WAITS;
	bool can_read = from->readable && !relay->ended && !relay->broken;
	if (can_read && from->urgent && !relay->held_bytes && leg_is_at_urgent_byte(from))
		return to->writable ? pass_urgent(relay, from, to) : RELAY_WAITS;
	if (can_read && relay->pipe[0] < 0 && !lend(pipes, relay))
		return to->writable ? copy(relay, from, to, COPY_BYTES, 0) : RELAY_WAITS;
	if (can_read && relay->held_bytes < pipes->bytes)
		filled = fill(relay, pipes->bytes - relay->held_bytes, from);
	if (relay->held_bytes && to->writable)
		drained = drain(relay, to);
	return filled == RELAY_FROM_FAILED || drained == RELAY_WAITS ? filled : drained;
}

enum relayed relay_run(struct relay *relay, struct pipes *pipes, struct leg *from, struct leg *to)
{
	enum relayed result;
	uint64_t before_bytes = relay->bytes;
	do
		result = step(relay, pipes, from, to);
	while (result == RELAY_GOES_ON && relay->bytes - before_bytes < TURN_BYTES);
	if (relay->held_bytes == 0)
		take_back(pipes, relay);
	if (relay->ended && !relay->held_bytes && !relay->closed && result != RELAY_TO_FAILED) {
		relay->closed = true;
		if (shutdown(to->fd, SHUT_WR) && errno != ENOTCONN)
			return to_failed(relay);
	}
	return result;
}
