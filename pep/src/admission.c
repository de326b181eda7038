// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "admission.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What the program returns: the places of the two sockets in their group. */
enum { TAKES, PASSES_BY };

/* Where the source address is in each family's header, and how many words it has. */
static const struct source {
	int family;
	unsigned offset, words;
} sources[FAMILIES] = {{AF_INET, 12, 1}, {AF_INET6, 8, 4}};

enum { MOST_AT_LIMIT = 256, WORDS = 4, PROGRAM_LENGTH = MOST_AT_LIMIT * (2 * WORDS + 1) + 1 };

struct client {
	struct list in_bucket, at_limit;
	int family;
	uint32_t address[WORDS]; /* as the program loads it: in host order */
	int connections;
};

static void client_of(const union address *from, struct client *client)
{
	*client = (struct client){.family = from->any.sa_family};
	if (client->family == AF_INET)
		memcpy(client->address, &from->v4.sin_addr, sizeof(from->v4.sin_addr));
	else
		memcpy(client->address, &from->v6.sin6_addr, sizeof(from->v6.sin6_addr));
	for (int word = 0; word < WORDS; word++)
		client->address[word] = ntohl(client->address[word]);
}

static unsigned short pass_by(struct sock_filter *program, const struct source *source, const struct client *client)
{
	unsigned short length = 0;
	for (unsigned word = 0; word < source->words; word++) {
		unsigned char rest = (unsigned char)(2 * (source->words - word) - 1); /* to the next client's first instruction */
		unsigned offset = (unsigned)SKF_NET_OFF + source->offset + 4 * word;
		program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
		program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, client->address[word], 0, rest);
	}
	program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, PASSES_BY);
	return length;
}

static bool decide(const struct admission *admission, int which)
{
	static struct sock_filter filter[PROGRAM_LENGTH];
	const struct source *source = &sources[which];
	unsigned short length = 0;
	for (struct list *node = admission->at_limit.next; node != &admission->at_limit && !admission->full; node = node->next) {
		const struct client *client = container_of(node, struct client, at_limit);
		if (client->family == source->family && length + 2 * WORDS + 1 < PROGRAM_LENGTH)
			length += pass_by(filter + length, source, client);
	}
	filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, admission->full ? PASSES_BY : TAKES);
	const struct sock_fprog program = {.len = length, .filter = filter};
	return !setsockopt(admission->listeners[which].takes, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program));
}

static void decide_all(const struct admission *admission)
{
	for (int which = 0; which < FAMILIES; which++)
		if (admission->listeners[which].takes >= 0 && !decide(admission, which))
			fprintf(stderr, "satpep: which connections are taken: %s\n", strerror(errno));
}

/* Bound like the other one, but not transparent. */
static int bypass(int family, int beside)
{
	union address any;
	socklen_t bytes = sizeof(any);
	const int yes = 1;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && !getsockname(beside, &any.any, &bytes) && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
	    !setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) &&
	    (family == AF_INET || !setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes))) && !bind(fd, &any.any, bytes))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* The port is bound before it may be shared: with nobody else, that is. */
static bool open_listener(struct admission *admission, int which, const struct options *options)
{
	struct listener *listener = &admission->listeners[which];
	const int yes = 1;
	listener->takes = leg_bind(sources[which].family, options->port, &options->legs[CLIENT]);
	if (listener->takes < 0)
		return false;
	if (!setsockopt(listener->takes, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof(yes)) && decide(admission, which) &&
	    (listener->passes_by = bypass(sources[which].family, listener->takes)) >= 0 && !listen(listener->takes, SOMAXCONN) &&
	    !listen(listener->passes_by, 1))
		return true;
	fprintf(stderr, "satpep: port %u: listening: %s\n", options->port, strerror(errno));
	return false;
}

static bool has_ipv6(void)
{
	return access("/proc/net/if_inet6", F_OK) == 0;
}

bool admission_open(struct admission *admission, const struct options *options)
{
	admission->most_per_client = options->max_per_client;
	list_init(&admission->at_limit);
	for (int bucket = 0; bucket < ADMISSION_BUCKETS; bucket++)
		list_init(&admission->clients[bucket]);
	for (int which = 0; which < FAMILIES; which++)
		admission->listeners[which] = (struct listener){-1, -1};
	return open_listener(admission, 0, options) && (!has_ipv6() || open_listener(admission, 1, options));
}

void admission_close(struct admission *admission)
{
	for (int which = 0; which < FAMILIES; which++) {
		if (admission->listeners[which].takes >= 0)
			close(admission->listeners[which].takes);
		if (admission->listeners[which].passes_by >= 0)
			close(admission->listeners[which].passes_by);
	}
	for (int bucket = 0; bucket < ADMISSION_BUCKETS; bucket++) {
		while (!list_empty(&admission->clients[bucket])) {
			struct client *client = container_of(admission->clients[bucket].next, struct client, in_bucket);
			list_remove(&client->in_bucket);
			free(client);
		}
	}
}

void admission_set_full(struct admission *admission, bool full)
{
	if (admission->full == full)
		return;
	admission->full = full;
	decide_all(admission);
}

static struct client *find(struct admission *admission, const struct client *wanted, bool make)
{
	uint32_t mixed = (wanted->address[0] ^ wanted->address[1] ^ wanted->address[2] ^ wanted->address[3]) * 2654435761U;
	struct list *bucket = &admission->clients[mixed >> 22];
	for (struct list *node = bucket->next; node != bucket; node = node->next) {
		struct client *client = container_of(node, struct client, in_bucket);
		if (client->family == wanted->family && !memcmp(client->address, wanted->address, sizeof(client->address)))
			return client;
	}
	struct client *made = make ? malloc(sizeof(*made)) : NULL;
	if (made) {
		*made = *wanted;
		list_init(&made->in_bucket);
		list_init(&made->at_limit);
		list_move_last(bucket, &made->in_bucket);
	}
	return made;
}

void admission_count(struct admission *admission, const union address *from, int change)
{
	struct client wanted;
	if (!admission->most_per_client)
		return;
	client_of(from, &wanted);
	struct client *client = find(admission, &wanted, change > 0);
	if (!client)
		return;
	client->connections += change;
	/* Taken again a little below the limit, not with every connection that ends there. */
	bool was_at_limit = !list_empty(&client->at_limit);
	bool at_limit = client->connections >= admission->most_per_client -
						(was_at_limit ? (admission->most_per_client - 1) / 16 : 0);
	if (at_limit && !was_at_limit)
		list_move_last(&admission->at_limit, &client->at_limit);
	else if (!at_limit)
		list_remove(&client->at_limit);
	if (at_limit != was_at_limit)
		decide_all(admission);
	if (client->connections == 0) {
		list_remove(&client->in_bucket);
		list_remove(&client->at_limit);
		free(client);
	}
}

