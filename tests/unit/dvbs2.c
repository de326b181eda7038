// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Runs the forward link of kernel/modules/dvbs2 in user space, for test_dvbs2.py.
 *
 * Reads from its standard input any number of scenarios, each of these lines:
 *
 *	NAME=VALUE …			the values (core.h)
 *	modcod NUMBER BYTES SYMBOLS
 *	change TIME_US TERMINAL KIND VALUE
 *	go				the link begins
 *	TIME_US TERMINAL CLASS BYTES	a packet arrives; times only grow
 *	end TIME_US			the end
 *
 * Prints for each of them
 *
 *	leaves NUMBER TIME_NS		a packet, numbered from 0 in the order of arrivals
 *	loses NUMBER TIME_NS		the same, of one whose terminal could not receive it
 *	drops NUMBER
 *	next TIME_NS			when the link wants to be asked again, at the end
 *	modcod NUMBER …			frames, lost ones; bytes of packets, of headers, padded
 *	class TERMINAL CLASS …		packets and bytes: in, out, dropped, lost, queued; delay: median, 95 %
 *	terminal NUMBER …		MODCOD, frames, lost ones; bytes of packets, of headers, queued
 *	end
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define LINE_BYTES 4096

static struct dvbs2 dvbs2;
static u32 *bins;
static u64 now_us;
static u64 changes;

static void fail(const char *what, const char *line)
{
	printf("%s %s\n", what, line);
	exit(1);
}

static void begin(char *line)
{
	char *word, *text;

	memset(&dvbs2, 0, sizeof(dvbs2));
	for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
		u64 *value;

		text = strchr(word, '=');
		assert(text);
		*text++ = '\0';
		value = dvbs2_value(&dvbs2.values, word);
		if (!value)
			fail("unknown", word);
		*value = strtoull(text, NULL, 10);
	}
	if (dvbs2_check_values(&dvbs2.values))
		fail("wrong", dvbs2_check_values(&dvbs2.values));
	dvbs2.terminals = calloc(dvbs2.values.terminals, sizeof(*dvbs2.terminals));
	dvbs2.changes = calloc(dvbs2.values.changes + 1, sizeof(*dvbs2.changes));
	bins = calloc(dvbs2.values.terminals * DVBS2_CLASSES * DVBS2_BINS, sizeof(*bins));
	assert(dvbs2.terminals && dvbs2.changes && bins);
	changes = 0;
}

static void go(void)
{
	if (changes != dvbs2.values.changes || dvbs2_check(&dvbs2))
		fail("wrong", changes != dvbs2.values.changes ? "changes" : dvbs2_check(&dvbs2));
	dvbs2_start(&dvbs2, bins, 0);
	now_us = 0;
}

static void leave(void)
{
	struct dvbs2_packet *packet;

	while ((packet = dvbs2_leave(&dvbs2))) {
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
	while ((next_ns = dvbs2_next_ns(&dvbs2)) < until_us * 1000) {
		dvbs2_advance(&dvbs2, next_ns, true);
		leave();
	}
	dvbs2_advance(&dvbs2, until_us * 1000, false);
	leave();
}

static void arrive(u64 time_us, unsigned int terminal, unsigned int class, unsigned int bytes, u64 number)
{
	struct dvbs2_packet *packet = calloc(1, sizeof(*packet));

	assert(packet && terminal < dvbs2.values.terminals && class < DVBS2_CLASSES && bytes);
	advance(time_us);
	packet->cookie = (void *)(uintptr_t)number;
	packet->terminal = terminal;
	packet->class = class;
	packet->bytes = bytes;
	if (!dvbs2_arrive(&dvbs2, packet, time_us * 1000)) {
		printf("drops %" PRIu64 "\n", number);
		free(packet);
	}
}

static void show_class(u32 terminal, u32 of)
{
	const struct dvbs2_class *one = &dvbs2.terminals[terminal].classes[of];

	if (!one->in.packets)
		return;
	printf("class %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, terminal, of,
	       one->in.packets, one->in.bytes, one->out.packets, one->out.bytes, one->dropped.packets, one->dropped.bytes);
	printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", one->lost.packets,
	       one->lost.bytes, one->queued.packets, one->queued.bytes, dvbs2_delay_us(one, 50), dvbs2_delay_us(one, 95));
}

static void end(u64 time_us)
{
	struct dvbs2_packet *packet;
	u32 i, c;

	advance(time_us);
	printf("next %" PRIu64 "\n", dvbs2_next_ns(&dvbs2));
	for (i = 0; i < DVBS2_MODCODS; i++) {
		const struct dvbs2_modcod *one = &dvbs2.modcods[i];

		if (one->frames)
			printf("modcod %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, one->frames,
			       one->lost_frames, one->used_bytes, one->header_bytes, one->padded_bytes);
	}
	for (i = 0; i < dvbs2.values.terminals; i++) {
		const struct dvbs2_terminal *one = &dvbs2.terminals[i];

		for (c = 0; c < DVBS2_CLASSES; c++)
			show_class(i, c);
		printf("terminal %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, one->modcod,
		       one->frames, one->lost_frames, one->used_bytes, one->header_bytes, dvbs2_queued_bytes(one));
	}
	printf("end\n");
	while ((packet = dvbs2_take(&dvbs2)))
		free(packet);
	for (i = 0; i < dvbs2.values.terminals; i++)
		assert(!dvbs2_queued_bytes(&dvbs2.terminals[i]));
	for (c = 0; c < DVBS2_CLASSES; c++)
		assert(!dvbs2.waiting[c]);
	free(dvbs2.terminals);
	free(dvbs2.changes);
	free(bins);
}

int main(void)
{
	char line[LINE_BYTES];
	unsigned int one, two, three;
	u64 time_us, number = 0;
	bool started = false;

	while (fgets(line, sizeof(line), stdin)) {
		if (!started) {
			begin(line);
			started = true;
			number = 0;
		} else if (sscanf(line, "modcod %u %u %u", &one, &two, &three) == 3) {
			assert(one < DVBS2_MODCODS);
			dvbs2.modcods[one].bytes = two;
			dvbs2.modcods[one].symbols = three;
		} else if (sscanf(line, "change %" SCNu64 " %u %u %u", &time_us, &one, &two, &three) == 4) {
			assert(changes < dvbs2.values.changes);
			dvbs2.changes[changes++] = (struct dvbs2_change){ time_us, one, two, three };
		} else if (!strcmp(line, "go\n")) {
			go();
		} else if (sscanf(line, "end %" SCNu64, &time_us) == 1) {
			end(time_us);
			started = false;
		} else if (sscanf(line, "%" SCNu64 " %u %u %u", &time_us, &one, &two, &three) == 4) {
			arrive(time_us, one, two, three, number++);
		} else {
			fail("no line of a scenario:", line);
		}
	}
	return started;
}
