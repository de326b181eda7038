/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the programs share that run a link of kernel/modules in user space: dama.c and dvbs2.c. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define LINE_BYTES 4096

static struct link link;
static u64 now_us;

static void fail(const char *what, const char *line)
{
	printf("%s %s\n", what, line);
	exit(1);
}

/* Sets numbers from NAME=VALUE NAME=VALUE …, of which `word` is the first one. */
static void read_numbers(char *word, const struct link_name *known, void *values)
{
	for (; word; word = strtok(NULL, " \n")) {
		char *text = strchr(word, '=');
		u64 *value;

		assert(text);
		*text++ = '\0';
		value = link_number(known, values, word);
		if (!value)
			fail("unknown", word);
		*value = strtoull(text, NULL, 10);
	}
}

static void leave(u64 now_ns)
{
	struct link_packet *packet;

	while ((packet = left_by(&link.leaving, now_ns))) {
		printf("%s %" PRIuPTR " %" PRIu64 "\n", packet->lost ? "loses" : "leaves", (uintptr_t)packet->cookie,
		       packet->leaves_ns);
		free(packet);
	}
}

/* As a qdisc does it: at each time that the link names. */
static void advance(u64 until_us)
{
	u64 next_ns;

	assert(until_us >= now_us);
	now_us = until_us;
	while ((next_ns = link_next_ns(&link)) < until_us * 1000) {
		link_advance(&link, next_ns, true);
		leave(next_ns);
	}
	link_advance(&link, until_us * 1000, false);
	leave(until_us * 1000);
}

static void arrive(u64 time_us, unsigned int terminal, unsigned int class, unsigned int bytes, u64 number)
{
	struct link_packet *packet = calloc(1, sizeof(*packet));

	assert(packet && terminal < link.values.terminals && class < LINK_CLASSES && bytes);
	advance(time_us);
	packet->cookie = (void *)(uintptr_t)number;
	packet->terminal = terminal;
	packet->class = class;
	packet->bytes = bytes;
	if (!link_arrive(&link, packet, time_us * 1000)) {
		printf("drops %" PRIu64 "\n", number);
		free(packet);
	}
}

static void show_classes(u32 terminal, const struct link_class *classes)
{
	u32 c;

	for (c = 0; c < LINK_CLASSES; c++) {
		const struct link_class *one = &classes[c];

		if (!one->in.bytes)
			continue;
		printf("class %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, terminal, c,
		       one->in.packets, one->in.bytes, one->out.packets, one->out.bytes, one->dropped.packets,
		       one->dropped.bytes);
		printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", one->lost.packets,
		       one->lost.bytes, one->queued.packets, one->queued.bytes, one->bins ? link_delay_us(one, 50) : 0,
		       one->bins ? link_delay_us(one, 95) : 0);
	}
}
