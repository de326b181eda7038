// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "proxy.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"
#include "descriptors.h"
#include "events.h"
#include "statistics.h"
#include "time_limits.h"

enum {
	EVENTS = 256,
	ACCEPTS = 64,		/* in a row, before others have a turn */
	ACCEPT_AGAIN_S = 1,	/* while the whole system has no descriptor left */
};

struct proxy {
	const struct options *options;
	struct admission *admission;
	struct answer_tos *answers;
	struct log *log;
	int epoll, signals;
	struct descriptors descriptors;
	bool accepting, draining, stopping;
	struct pipes pipes;
	struct time_limits limits;
	struct list turn; /* connections with more to do than one turn allows */
	struct list over; /* those to be freed when no event can name them any more */
	struct totals totals;
	time_t now_s, totals_due_s, accept_again_s, drained_s; /* monotonic; 0: never */
};

/* An event names a leg, the descriptor of a listening socket where the admission has it, or one of these. */
static char a_signal, a_reader;

static void set_accepting(struct proxy *proxy, bool accepting)
{
	for (int i = 0; i < FAMILIES; i++) {
		struct listener *listener = &proxy->admission->listeners[i];
		if (listener->takes < 0)
			continue;
		events_pause(proxy->epoll, listener->takes, &listener->takes, !accepting);
		events_pause(proxy->epoll, listener->passes_by, &listener->passes_by, !accepting);
	}
	proxy->accepting = accepting;
	proxy->accept_again_s = 0;
}

static void set_full(struct proxy *proxy, bool full)
{
	if (proxy->admission->full == full)
		return;
	admission_set_full(proxy->admission, full);
	statistics_admission(proxy->log, full, proxy->totals.open);
}

/* On the standard error, unless whoever reads it has stalled. */
static void say(const struct proxy *proxy, const union address *client, const union address *server, const char *what)
{
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];
	struct pollfd reader = {.fd = STDERR_FILENO, .events = POLLOUT};
	if (proxy->options->verbose && poll(&reader, 1, 0) == 1)
		fprintf(stderr, "satpep: %s to %s: %s\n", address_text(client, from), address_text(server, to), what);
}

static void record(const struct proxy *proxy, const struct connection *connection, const char *event)
{
	say(proxy, &connection->ends[CLIENT], &connection->ends[SERVER], connection->outcome ? connection->outcome : event);
	statistics_connection(proxy->log, event, connection);
}

static void add_bytes(struct totals *totals, const struct connection *connection)
{
	for (int side = 0; side < SIDES; side++) {
		totals->bytes[side] += connection->relays[side].bytes;
		totals->copied_bytes += connection->relays[side].copied_bytes;
	}
}

/* Counts a connection more (1) or less (-1). It is counted before its server hears of it: the next client's SYN meets the limit. */
static void take_in(struct proxy *proxy, const union address *client, int change)
{
	proxy->totals.open += change;
	if (proxy->totals.open > proxy->totals.most_open)
		proxy->totals.most_open = proxy->totals.open;
	admission_count(proxy->admission, client, change);
	if (proxy->totals.open >= proxy->descriptors.connections)
		set_full(proxy, true);
	else if (proxy->totals.open < proxy->descriptors.connections - proxy->descriptors.connections / 16 && !proxy->draining)
		set_full(proxy, false); /* not with every single end: it takes a few microseconds */
}

static void finish(struct proxy *proxy, struct connection *connection)
{
	record(proxy, connection, "ended");
	proxy->totals.ended++;
	add_bytes(&proxy->totals, connection);
	take_in(proxy, &connection->ends[CLIENT], -1);
	list_remove(&connection->wait);
	list_move_last(&proxy->over, &connection->turn);
	if (proxy->draining)
		proxy->stopping |= proxy->totals.open == 0;
	else if (!proxy->accepting && !proxy->stopping)
		set_accepting(proxy, true);
}

static void advance(struct proxy *proxy, struct connection *connection)
{
	if (connection->state == OVER)
		return;
	bool was_connecting = connection->state == CONNECTING;
	bool more = connection_advance(connection, &(struct relaying){proxy->options, &proxy->pipes, proxy->answers});
	if (was_connecting && connection->state != CONNECTING && connection->state != OVER) {
		proxy->totals.connected++;
		record(proxy, connection, "connected");
	}
	if (connection->state == OVER) {
		finish(proxy, connection);
		return;
	}
	time_limits_start(&proxy->limits, connection, proxy->now_s);
	for (enum side side = CLIENT; side < SIDES; side++)
		if (connection_wants_to_write(connection, side))
			events_watch_write(proxy->epoll, &connection->legs[side], true);
	if (more)
		list_move_last(&proxy->turn, &connection->turn);
	else
		list_remove(&connection->turn);
}

static void open_connection(struct proxy *proxy, int fd, const union address *client)
{
	union address server;
	socklen_t bytes = sizeof(server);
	struct leg accepted = {.fd = fd};
	if (getsockname(fd, &server.any, &bytes)) {
		leg_reset(&accepted);
		return;
	}
	in_port_t port = server.any.sa_family == AF_INET ? server.v4.sin_port : server.v6.sin6_port;
	if (port == htons(proxy->options->port) && address_is_local(&server)) {
		say(proxy, client, &server, "no TPROXY rule sent it here: reset");
		leg_reset(&accepted);
		return;
	}
	take_in(proxy, client, 1);
	struct connection *connection = connection_open(proxy->totals.accepted + 1, fd, client, &server, proxy->options);
	if (!connection) {
		take_in(proxy, client, -1);
		leg_reset(&accepted);
		return;
	}
	proxy->totals.accepted++;
	struct leg *legs = connection->legs;
	if (connection->state != OVER && !(events_watch_leg(proxy->epoll, &legs[CLIENT]) && events_watch_leg(proxy->epoll, &legs[SERVER])))
		connection_end(connection, "no memory for its events");
	if (connection->state == OVER)
		finish(proxy, connection);
	else
		time_limits_start(&proxy->limits, connection, proxy->now_s);
}

/* What came to the proxy's port while it is full, without a rule; or, there being no descriptor left, at all: to be tried again. */
static void turn_away(struct proxy *proxy, int fd)
{
	leg_reset(&(struct leg){.fd = fd});
	proxy->totals.turned_away++;
}

static void accept_some(struct proxy *proxy, int listener, bool passes_by)
{
	for (int i = 0; i < ACCEPTS; i++) {
		union address client;
		socklen_t bytes = sizeof(client);
		int fd = accept4(listener, &client.any, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0 && (passes_by || proxy->totals.open >= proxy->descriptors.room)) {
			turn_away(proxy, fd);
			continue;
		}
		if (fd >= 0) {
			open_connection(proxy, fd, &client);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			set_accepting(proxy, false);
			proxy->accept_again_s = proxy->now_s + ACCEPT_AGAIN_S;
			return;
		}
		if (errno == EAGAIN)
			return; /* other errors are of a connection that is gone */
	}
}

/* Whether the event is that of a listening socket. */
static bool take_listener(struct proxy *proxy, const void *what)
{
	for (int i = 0; i < FAMILIES; i++) {
		const struct listener *listener = &proxy->admission->listeners[i];
		if (what == &listener->takes || what == &listener->passes_by) {
			accept_some(proxy, *(const int *)what, what == &listener->passes_by);
			return true;
		}
	}
	return false;
}

static void write_totals(struct proxy *proxy)
{
	struct totals totals = proxy->totals;
	for (int wait = 0; wait < WAITS; wait++)
		for (struct list *all = &proxy->limits.waits[wait].connections, *node = all->next; node != all; node = node->next)
			add_bytes(&totals, container_of(node, struct connection, wait));
	statistics_totals(proxy->log, &totals);
}

/* No new connections; those that it has may end by themselves, for a while. */
static void drain(struct proxy *proxy)
{
	if (proxy->draining || !proxy->options->drain_s || !proxy->totals.open) {
		proxy->stopping = true;
		return;
	}
	proxy->draining = true;
	proxy->drained_s = proxy->now_s + proxy->options->drain_s;
	set_full(proxy, true);
}

static void take_signals(struct proxy *proxy)
{
	struct signalfd_siginfo signal;
	while (read(proxy->signals, &signal, sizeof(signal)) == sizeof(signal)) {
		if (signal.ssi_signo == SIGUSR1)
			write_totals(proxy);
		else if (signal.ssi_signo == SIGHUP)
			log_reopen(proxy->log);
		else if (signal.ssi_signo == SIGTERM)
			drain(proxy);
		else
			proxy->stopping = true;
	}
}

/* An event of writing alone that nothing has waited for is not asked for again. */
static void take_leg(struct proxy *proxy, struct leg *leg, uint32_t events)
{
	struct connection *connection = container_of(leg - leg->side, struct connection, legs[0]);
	if (connection->state == OVER)
		return;
	if (events == EPOLLOUT && leg->writable && connection->state == RELAYING) {
		events_watch_write(proxy->epoll, leg, false);
		return;
	}
	events_take(leg, events);
	if (!connection->bulk)
		advance(proxy, connection);
	else if (list_empty(&connection->turn))
		list_move_last(&proxy->turn, &connection->turn);
}

static void take(struct proxy *proxy, const struct epoll_event *event)
{
	if (event->data.ptr == &a_signal) {
		take_signals(proxy);
	} else if (event->data.ptr == &a_reader) {
		proxy->log->blocked = false;
		proxy->stopping |= !!(event->events & EPOLLERR); /* whoever has started it is gone */
	} else if (!take_listener(proxy, event->data.ptr)) {
		take_leg(proxy, event->data.ptr, event->events);
	}
}

/* One of those that move much has its turn, then events are looked for again: others do not wait for all of them. */
static void take_a_turn(struct proxy *proxy)
{
	if (list_empty(&proxy->turn))
		return;
	struct connection *connection = container_of(proxy->turn.next, struct connection, turn);
	list_remove(&connection->turn);
	advance(proxy, connection);
}

static void take_time(struct proxy *proxy)
{
	const char *outcome;
	for (struct connection *passed; (passed = time_limits_passed(&proxy->limits, proxy->now_s, &outcome));) {
		connection_end(passed, outcome);
		finish(proxy, passed);
	}
	if (proxy->accept_again_s && proxy->accept_again_s <= proxy->now_s)
		set_accepting(proxy, true);
	if (proxy->drained_s && proxy->drained_s <= proxy->now_s)
		proxy->stopping = true;
	if (proxy->totals_due_s && proxy->totals_due_s <= proxy->now_s) {
		write_totals(proxy);
		proxy->totals_due_s = proxy->now_s + proxy->options->totals_interval_s;
	}
}

static void earlier(time_t *due_s, time_t other_s)
{
	if (other_s && (!*due_s || other_s < *due_s))
		*due_s = other_s;
}

/* Milliseconds until time alone makes something happen; -1: it never does. */
static int idle_ms(const struct proxy *proxy)
{
	time_t due_s = 0;
	if (!list_empty(&proxy->turn))
		return 0;
	earlier(&due_s, time_limits_next_s(&proxy->limits));
	earlier(&due_s, proxy->accept_again_s);
	earlier(&due_s, proxy->totals_due_s);
	earlier(&due_s, proxy->drained_s);
	if (!due_s)
		return -1;
	time_t wait_s = due_s - proxy->now_s;
	return wait_s <= 0 ? 0 : wait_s > 3600 ? 3600 * 1000 : (int)wait_s * 1000;
}

static time_t monotonic_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + 1; /* 0 is never */
}

static void free_over(struct proxy *proxy)
{
	while (!list_empty(&proxy->over))
		connection_free(container_of(proxy->over.next, struct connection, turn), &proxy->pipes);
}

static void loop(struct proxy *proxy)
{
	struct epoll_event events[EVENTS];
	while (!proxy->stopping) {
		int count = epoll_wait(proxy->epoll, events, EVENTS, idle_ms(proxy));
		proxy->now_s = monotonic_s();
		for (int i = 0; i < count; i++)
			take(proxy, &events[i]);
		take_a_turn(proxy);
		take_time(proxy);
		free_over(proxy);
		log_flush(proxy->log);
	}
}

static void stop(struct proxy *proxy)
{
	for (struct connection *open; (open = time_limits_any(&proxy->limits));) {
		connection_end(open, "stopped");
		finish(proxy, open);
	}
	free_over(proxy);
	log_wait(proxy->log); /* so that the totals have room */
	write_totals(proxy);
}

sigset_t proxy_block_signals(void)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	return signals;
}

static bool start(struct proxy *proxy, const sigset_t *signals)
{
	signal(SIGPIPE, SIG_IGN); /* splice has no MSG_NOSIGNAL */
	proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
	proxy->signals = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (proxy->epoll < 0 || proxy->signals < 0 || !events_watch(proxy->epoll, proxy->signals, EPOLLIN, &a_signal))
		return false;
	if (proxy->log->fd == STDOUT_FILENO) /* a pipe without a reader is an error; a file cannot be watched */
		events_watch(proxy->epoll, proxy->log->fd, EPOLLOUT | EPOLLET, &a_reader);
	for (int i = 0; i < FAMILIES; i++) {
		struct listener *listener = &proxy->admission->listeners[i];
		if (listener->takes >= 0 && !(events_watch(proxy->epoll, listener->takes, EPOLLIN, &listener->takes) &&
					      events_watch(proxy->epoll, listener->passes_by, EPOLLIN, &listener->passes_by)))
			return false;
	}
	return true;
}

int proxy_run(const struct options *options, struct admission *admission, struct answer_tos *answers, struct log *log, const sigset_t *signals)
{
	struct proxy proxy = {
		.options = options,
		.admission = admission,
		.answers = answers,
		.log = log,
		.accepting = true,
		.descriptors = descriptors_share(options->max_connections),
		.now_s = monotonic_s(),
	};
	list_init(&proxy.turn);
	list_init(&proxy.over);
	time_limits_init(&proxy.limits, options);
	if (options->totals_interval_s)
		proxy.totals_due_s = proxy.now_s + options->totals_interval_s;
	if (!pipes_init(&proxy.pipes, proxy.descriptors.pipes, options->pipe_bytes) || !start(&proxy, signals)) {
		fprintf(stderr, "satpep: starting: %s\n", strerror(errno));
		return 1;
	}
	statistics_ready(log, options->port);
	loop(&proxy);
	stop(&proxy);
	pipes_free(&proxy.pipes);
	close(proxy.epoll);
	close(proxy.signals);
	return 0;
}
