// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "relay.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TURNS = 16, COPY_BYTES = 64 << 10 };

bool pipes_init(struct pipes *pipes, int most, int bytes)
{
	*pipes = (struct pipes){.most = most, .bytes = bytes};
	pipes->spare = calloc((size_t)most, sizeof(*pipes->spare));
	return pipes->spare;
}

void pipes_free(struct pipes *pipes)
{
	while (pipes->spares--) {
		close(pipes->spare[pipes->spares][0]);
		close(pipes->spare[pipes->spares][1]);
	}
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
	if (pipes->made == pipes->most || pipe2(relay->pipe, O_NONBLOCK | O_CLOEXEC)) {
		relay->pipe[0] = relay->pipe[1] = -1;
		return false;
	}
	fcntl(relay->pipe[1], F_SETPIPE_SZ, pipes->bytes); /* refused when the user has many: a small one works as well */
	pipes->made++;
	return true;
}

static void take_back(struct pipes *pipes, struct relay *relay)
{
	if (relay->pipe[0] < 0)
		return;
	if (relay->held_bytes) {
		close(relay->pipe[0]);
		close(relay->pipe[1]);
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

static enum relayed broken(struct relay *relay)
{
	relay->broken = true;
	return RELAY_FROM_FAILED;
}

/* From the socket into the pipe. */
static enum relayed fill(struct relay *relay, int pipe_bytes, struct leg *from)
{
	ssize_t moved = splice(from->fd, NULL, relay->pipe[1], NULL, (size_t)pipe_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved > 0)
		relay->held_bytes += (int)moved;
	else if (moved == 0)
		relay->ended = true;
	else if (!would_block())
		return broken(relay);
	else if (!relay->held_bytes) /* or the pipe may be full */
		from->readable = false;
	return moved > 0 ? RELAY_GOES_ON : RELAY_WAITS;
}

/* From the pipe into the socket. */
static enum relayed drain(struct relay *relay, struct leg *to)
{
	ssize_t moved = splice(relay->pipe[0], NULL, to->fd, NULL, (size_t)relay->held_bytes, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (moved > 0) {
		relay->held_bytes -= (int)moved;
		relay->bytes += (uint64_t)moved;
		return RELAY_GOES_ON;
	}
	if (moved < 0 && !would_block())
		return RELAY_TO_FAILED;
	to->writable = false;
	return RELAY_WAITS;
}

/* From socket to socket when there is no pipe to be had: only what the receiver takes leaves the sender's queue. */
static enum relayed copy(struct relay *relay, struct leg *from, struct leg *to)
{
	static char buffer[COPY_BYTES];
	ssize_t seen = recv(from->fd, buffer, sizeof(buffer), MSG_PEEK);
	if (seen == 0)
		relay->ended = true;
	else if (seen < 0 && !would_block())
		return broken(relay);
	else if (seen < 0)
		from->readable = false;
	if (seen <= 0)
		return RELAY_WAITS;
	ssize_t sent = send(to->fd, buffer, (size_t)seen, MSG_NOSIGNAL);
	if (sent < 0 && !would_block())
		return RELAY_TO_FAILED;
	if (sent <= 0) {
		to->writable = false;
		return RELAY_WAITS;
	}
	relay->bytes += (uint64_t)sent;
	recv(from->fd, buffer, (size_t)sent, 0);
	return RELAY_GOES_ON;
}

static enum relayed step(struct relay *relay, struct pipes *pipes, struct leg *from, struct leg *to)
{
	enum relayed filled = RELAY_WAITS, drained = RELAY_WAITS;
	bool can_read = from->readable && !relay->ended && !relay->broken;
	if (can_read && relay->pipe[0] < 0 && !lend(pipes, relay))
		return to->writable ? copy(relay, from, to) : RELAY_WAITS;
	if (can_read && relay->held_bytes < pipes->bytes)
		filled = fill(relay, pipes->bytes - relay->held_bytes, from);
	if (relay->held_bytes && to->writable)
		drained = drain(relay, to);
	return filled == RELAY_FROM_FAILED || drained == RELAY_WAITS ? filled : drained;
}

enum relayed relay_run(struct relay *relay, struct pipes *pipes, struct leg *from, struct leg *to)
{
	enum relayed result = RELAY_GOES_ON;
	for (int turn = 0; turn < TURNS && result == RELAY_GOES_ON; turn++)
		result = step(relay, pipes, from, to);
	if (relay->held_bytes == 0)
		take_back(pipes, relay);
	if (relay->ended && !relay->held_bytes && !relay->closed && result != RELAY_TO_FAILED) {
		relay->closed = true;
		if (shutdown(to->fd, SHUT_WR) && errno != ENOTCONN)
			return RELAY_TO_FAILED;
	}
	return result;
}
