// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "proxy.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"
#include "statistics.h"

enum {
	EVENTS = 256,
	ACCEPTS = 64,		/* in a row, before others have a turn */
	OWN_DESCRIPTORS = 32,	/* listeners, epoll, signals, log, the standard ones */
	RESET_LIMIT_S = 60,	/* for the last bytes before a reset */
	ACCEPT_AGAIN_S = 1,	/* while the whole system has no descriptor left */
};

/* What a connection waits for, each with a limit and what it comes to when the limit has passed. */
enum wait { WAIT_SERVER, WAIT_BYTES, WAIT_RESET, WAITS };

struct waiting {
	struct list list; /* the longest-waiting one first */
	int limit_s;
	const char *outcome;
};

struct proxy {
	const struct options *options;
	const struct listeners *listeners;
	FILE *out;
	int epoll, signals;
	int most_connections;
	bool accepting, stopping;
	struct pipes pipes;
	struct waiting waiting[WAITS];
	struct list turn; /* connections with more to do than one turn allows */
	struct list over; /* those to be freed when no event can name them any more */
	struct totals totals;
	time_t now_s, totals_due_s, accept_again_s; /* monotonic; 0: never */
};

/* An event names a leg, or one of these. */
static char a_listener, a_signal, a_reader;

static bool watch(const struct proxy *proxy, int fd, uint32_t events, void *what)
{
	struct epoll_event event = {.events = events, .data.ptr = what};
	return !epoll_ctl(proxy->epoll, EPOLL_CTL_ADD, fd, &event);
}

static bool watch_leg(const struct proxy *proxy, struct leg *leg)
{
	return watch(proxy, leg->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, leg);
}

static void set_accepting(struct proxy *proxy, bool accepting)
{
	const int fds[] = {proxy->listeners->v4, proxy->listeners->v6};
	struct epoll_event event = {.events = accepting ? EPOLLIN : 0, .data.ptr = &a_listener};
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			epoll_ctl(proxy->epoll, EPOLL_CTL_MOD, fds[i], &event);
	proxy->accepting = accepting;
	proxy->accept_again_s = 0;
}

static void say(const struct proxy *proxy, const union address *client, const union address *server, const char *what)
{
	char from[ADDRESS_TEXT_BYTES], to[ADDRESS_TEXT_BYTES];
	if (proxy->options->verbose)
		fprintf(stderr, "satpep: %s to %s: %s\n", address_text(client, from), address_text(server, to), what);
}

static void record(const struct proxy *proxy, const struct connection *connection, const char *event)
{
	say(proxy, &connection->ends[CLIENT], &connection->ends[SERVER], connection->outcome ? connection->outcome : event);
	if (proxy->out)
		statistics_connection(proxy->out, event, connection);
}

static void finish(struct proxy *proxy, struct connection *connection)
{
	record(proxy, connection, "ended");
	proxy->totals.ended++;
	proxy->totals.open--;
	for (int side = 0; side < SIDES; side++)
		proxy->totals.bytes[side] += connection->relays[side].bytes;
	list_remove(&connection->wait);
	list_move_last(&proxy->over, &connection->turn);
	if (!proxy->accepting && !proxy->stopping)
		set_accepting(proxy, true);
}

static void wait_for(struct proxy *proxy, struct connection *connection)
{
	static const enum wait of[] = {
		[CONNECTING] = WAIT_SERVER, [RELAYING] = WAIT_BYTES, [CLOSING] = WAIT_BYTES, [RESETTING] = WAIT_RESET};
	enum wait wait = of[connection->state];
	if (!list_empty(&connection->wait) && connection->waits_for == (int)wait && wait != WAIT_BYTES)
		return; /* an event that changes nothing gives no more time */
	connection->waits_for = wait;
	connection->since_s = proxy->now_s;
	list_move_last(&proxy->waiting[wait].list, &connection->wait);
}

static void advance(struct proxy *proxy, struct connection *connection)
{
	if (connection->state == OVER)
		return;
	bool was_connecting = connection->state == CONNECTING;
	bool more = connection_advance(connection, &(struct relaying){proxy->options, &proxy->pipes});
	if (was_connecting && connection->state != CONNECTING && connection->state != OVER) {
		proxy->totals.connected++;
		record(proxy, connection, "connected");
	}
	if (connection->state == OVER) {
		finish(proxy, connection);
		return;
	}
	wait_for(proxy, connection);
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
	struct connection *connection = connection_open(proxy->totals.accepted + 1, fd, client, &server, proxy->options);
	if (!connection) {
		leg_reset(&accepted);
		return;
	}
	proxy->totals.accepted++;
	if (++proxy->totals.open > proxy->totals.most_open)
		proxy->totals.most_open = proxy->totals.open;
	struct leg *legs = connection->legs;
	if (connection->state != OVER && !(watch_leg(proxy, &legs[CLIENT]) && watch_leg(proxy, &legs[SERVER])))
		connection_end(connection, "no memory for its events");
	if (connection->state == OVER)
		finish(proxy, connection);
	else
		wait_for(proxy, connection);
}

static void accept_some(struct proxy *proxy, int listener)
{
	for (int i = 0; i < ACCEPTS; i++) {
		if (proxy->totals.open >= proxy->most_connections) {
			set_accepting(proxy, false);
			return;
		}
		union address client;
		socklen_t bytes = sizeof(client);
		int fd = accept4(listener, &client.any, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
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

static void write_totals(struct proxy *proxy)
{
	if (!proxy->out)
		return;
	struct totals totals = proxy->totals;
	for (int wait = 0; wait < WAITS; wait++)
		for (struct list *node = proxy->waiting[wait].list.next; node != &proxy->waiting[wait].list; node = node->next)
			for (int side = 0; side < SIDES; side++)
				totals.bytes[side] += container_of(node, struct connection, wait)->relays[side].bytes;
	statistics_totals(proxy->out, &totals);
}

static void take_signals(struct proxy *proxy)
{
	struct signalfd_siginfo signal;
	while (read(proxy->signals, &signal, sizeof(signal)) == sizeof(signal)) {
		if (signal.ssi_signo == SIGUSR1)
			write_totals(proxy);
		else
			proxy->stopping = true;
	}
}

static void take(struct proxy *proxy, const struct epoll_event *event)
{
	if (event->data.ptr == &a_signal) {
		take_signals(proxy);
	} else if (event->data.ptr == &a_reader) {
		proxy->stopping = true; /* whoever has started it is gone */
	} else if (event->data.ptr == &a_listener) {
		for (int i = 0; i < 2 && proxy->accepting; i++)
			if ((i ? proxy->listeners->v6 : proxy->listeners->v4) >= 0)
				accept_some(proxy, i ? proxy->listeners->v6 : proxy->listeners->v4);
	} else {
		struct leg *leg = event->data.ptr;
		leg->readable |= !!(event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR));
		leg->writable |= !!(event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR));
		leg->failed |= !!(event->events & EPOLLERR);
		advance(proxy, container_of(leg - leg->side, struct connection, legs[0]));
	}
}

static void take_turns(struct proxy *proxy)
{
	struct list now;
	list_init(&now);
	while (!list_empty(&proxy->turn))
		list_move_last(&now, proxy->turn.next);
	while (!list_empty(&now)) {
		struct connection *connection = container_of(now.next, struct connection, turn);
		list_remove(&connection->turn);
		advance(proxy, connection);
	}
}

static void take_time(struct proxy *proxy)
{
	for (int wait = 0; wait < WAITS; wait++) {
		struct waiting *waiting = &proxy->waiting[wait];
		while (!list_empty(&waiting->list)) {
			struct connection *longest = container_of(waiting->list.next, struct connection, wait);
			if (longest->since_s + waiting->limit_s > proxy->now_s)
				break;
			connection_end(longest, waiting->outcome);
			finish(proxy, longest);
		}
	}
	if (proxy->accept_again_s && proxy->accept_again_s <= proxy->now_s)
		set_accepting(proxy, true);
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
	for (int wait = 0; wait < WAITS; wait++)
		if (!list_empty(&proxy->waiting[wait].list))
			earlier(&due_s, container_of(proxy->waiting[wait].list.next, struct connection, wait)->since_s +
						proxy->waiting[wait].limit_s);
	earlier(&due_s, proxy->accept_again_s);
	earlier(&due_s, proxy->totals_due_s);
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
		take_turns(proxy);
		take_time(proxy);
		free_over(proxy);
	}
}

static void stop(struct proxy *proxy)
{
	for (int wait = 0; wait < WAITS; wait++) {
		while (!list_empty(&proxy->waiting[wait].list)) {
			struct connection *open = container_of(proxy->waiting[wait].list.next, struct connection, wait);
			connection_end(open, "stopped");
			finish(proxy, open);
		}
	}
	free_over(proxy);
	write_totals(proxy);
}

int proxy_descriptors(const struct options *options)
{
	return OWN_DESCRIPTORS + 6 * options->max_connections; /* two sockets and two pipes each */
}

/* Sockets first; what is left is for pipes. */
static bool share_descriptors(struct proxy *proxy)
{
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	int wanted = proxy_descriptors(proxy->options);
	int left = (limit.rlim_cur < (rlim_t)wanted ? (int)limit.rlim_cur : wanted) - OWN_DESCRIPTORS;
	proxy->most_connections = proxy->options->max_connections;
	if (left < 2 * proxy->most_connections) {
		proxy->most_connections = left < 2 ? 1 : left / 2;
		fprintf(stderr, "satpep: %d connections at a time instead of %d: this process may have %d descriptors only\n",
			proxy->most_connections, proxy->options->max_connections, (int)limit.rlim_cur);
	}
	left -= 2 * proxy->most_connections;
	return pipes_init(&proxy->pipes, left > 0 ? left / 2 : 0, proxy->options->pipe_bytes);
}

static bool start(struct proxy *proxy)
{
	sigset_t signals;
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN); /* splice has no MSG_NOSIGNAL */
	proxy->epoll = epoll_create1(EPOLL_CLOEXEC);
	proxy->signals = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	if (proxy->epoll < 0 || proxy->signals < 0 || !watch(proxy, proxy->signals, EPOLLIN, &a_signal))
		return false;
	if (proxy->out)
		watch(proxy, fileno(proxy->out), 0, &a_reader); /* a pipe without a reader is an error; a file cannot be watched */
	const int fds[] = {proxy->listeners->v4, proxy->listeners->v6};
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0 && !watch(proxy, fds[i], EPOLLIN, &a_listener))
			return false;
	return true;
}

int proxy_run(const struct options *options, const struct listeners *listeners, FILE *out)
{
	struct proxy proxy = {
		.options = options,
		.listeners = listeners,
		.out = out,
		.accepting = true,
		.waiting = {
			[WAIT_SERVER] = {.limit_s = options->connect_timeout_s, .outcome = "timed out"},
			[WAIT_BYTES] = {.limit_s = options->lifetime_s, .outcome = "idle"},
			[WAIT_RESET] = {.limit_s = RESET_LIMIT_S, .outcome = "reset"},
		},
		.now_s = monotonic_s(),
	};
	list_init(&proxy.turn);
	list_init(&proxy.over);
	for (int wait = 0; wait < WAITS; wait++)
		list_init(&proxy.waiting[wait].list);
	if (options->totals_interval_s)
		proxy.totals_due_s = proxy.now_s + options->totals_interval_s;
	if (!share_descriptors(&proxy) || !start(&proxy)) {
		fprintf(stderr, "satpep: starting: %s\n", strerror(errno));
		return 1;
	}
	if (out)
		statistics_ready(out, options->port);
	loop(&proxy);
	stop(&proxy);
	pipes_free(&proxy.pipes);
	close(proxy.epoll);
	close(proxy.signals);
	return 0;
}
