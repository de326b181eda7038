// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Runs the return link of kernel/modules/dama in user space, for test_dama.py.
 *
 * Reads from its standard input any number of scenarios, each of these lines:
 *
 *	NAME=VALUE …			the values (core.h)
 *	TIME_US TERMINAL CLASS BYTES	a packet arrives; times only grow
 *	look TIME_US			what there is by then: a line `look` with the same columns as `end`
 *	give TERMINAL NAME=VALUE …	from now on its share (core.h)
 *	wish TIME_US TERMINAL BPS	a proxy wants it to ask for so much
 *	end TIME_US			the end
 *
 * Prints for each of them
 *
 *	leaves NUMBER TIME_NS		a packet, numbered from 0 in the order of arrivals
 *	drops NUMBER
 *	next TIME_NS			when the link wants to be asked again, at the end
 *	most SLOTS			that were granted in one superframe
 *	class TERMINAL CLASS …		packets and bytes: in, out, dropped, queued; access delay: median, 95 %
 *	end TERMINAL …			slots granted, used; bytes used, of headers, padded, queued; requests; collisions
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define LINE_BYTES 4096

static struct dama dama;
static struct dama_terminal *terminals;
static struct dama_request *requests;
static u32 *bins;
static u64 now_us;

static void start(char *line)
{
	struct dama_values values;
	char *word, *text;
	const char *wrong;

	memset(&values, 0, sizeof(values));
	for (word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
		text = strchr(word, '=');
		assert(text);
		*text++ = '\0';
		u64 *value = dama_value(&values, word);

		if (!value) {
			printf("unknown %s\n", word);
			exit(1);
		}
		*value = strtoull(text, NULL, 10);
	}
	wrong = dama_check(&values);
	if (wrong) {
		printf("wrong %s\n", wrong);
		exit(1);
	}
	u64 count = values.terminals + values.simulated;

	terminals = calloc(count, sizeof(*terminals));
	requests = calloc(count * DAMA_RING, sizeof(*requests));
	bins = calloc(values.terminals * DAMA_CLASSES * DAMA_BINS, sizeof(*bins));
	assert(terminals && requests && bins);
	dama_start(&dama, &values, terminals, requests, bins, 0);
	now_us = 0;
}

static void leave(u64 now_ns)
{
	struct dama_packet *packet;

	while ((packet = dama_leave(&dama, now_ns))) {
		printf("leaves %" PRIuPTR " %" PRIu64 "\n", (uintptr_t)packet->cookie, packet->leaves_ns);
		free(packet);
	}
}

/* As a qdisc does it: at each time that the link names. */
static void advance(u64 until_us)
{
	u64 next_ns;

	assert(until_us >= now_us);
	now_us = until_us;
	while ((next_ns = dama_next_ns(&dama)) <= until_us * 1000) {
		dama_advance(&dama, next_ns);
		leave(next_ns);
	}
	dama_advance(&dama, until_us * 1000);
	leave(until_us * 1000);
}

static void arrive(u64 time_us, unsigned int terminal, unsigned int class, unsigned int bytes, u64 number)
{
	struct dama_packet *packet = calloc(1, sizeof(*packet));

	assert(packet && terminal < dama.values.terminals && class < DAMA_CLASSES && bytes);
	advance(time_us);
	packet->cookie = (void *)(uintptr_t)number;
	packet->terminal = terminal;
	packet->class = class;
	packet->bytes = bytes;
	if (!dama_arrive(&dama, packet, time_us * 1000)) {
		printf("drops %" PRIu64 "\n", number);
		free(packet);
	}
}

static void give(char *line)
{
	const char *wrong;
	char *word = strtok(line + strlen("give "), " \n");
	u32 number = strtoul(word, NULL, 10);

	assert(number < dama.values.terminals);
	struct dama_share share = dama.terminals[number].share;

	while ((word = strtok(NULL, " \n"))) {
		char *text = strchr(word, '=');

		assert(text);
		*text++ = '\0';
		u64 *value = dama_share_value(&share, word);

		assert(value);
		*value = strtoull(text, NULL, 10);
	}
	wrong = dama_give(&dama, number, &share);
	if (wrong)
		printf("wrong %s\n", wrong);
}

static void wish(u64 time_us, unsigned int number, u64 rate_bps)
{
	assert(number < dama.values.terminals);
	advance(time_us);
	dama_wish(&dama, number, rate_bps);
}

static void look(const char *word)
{
	u32 i;

	for (i = 0; i < dama.count; i++) {
		const struct dama_terminal *one = &dama.terminals[i];

		printf("%s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       word, i, one->granted_slots, one->used_slots, one->used_bytes, one->header_bytes, one->padded_bytes,
		       dama_queued_bytes(one), one->request_count, one->collisions);
	}
}

static void end(u64 time_us)
{
	struct dama_packet *packet;
	u32 i, c;

	advance(time_us);
	printf("next %" PRIu64 "\nmost %" PRIu64 "\n", dama_next_ns(&dama), dama.most_granted);
	for (i = 0; i < dama.count; i++) {
		for (c = 0; c < DAMA_CLASSES; c++) {
			const struct dama_class *class = &dama.terminals[i].classes[c];

			if (!class->in.bytes)
				continue;
			printf("class %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
			       " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
			       i, c, class->in.packets, class->in.bytes, class->out.packets, class->out.bytes,
			       class->dropped.packets, class->dropped.bytes, class->queued.packets, class->queued.bytes,
			       class->bins ? dama_delay_us(class, 50) : 0, class->bins ? dama_delay_us(class, 95) : 0);
		}
	}
	look("end");
	printf("\n");
	while ((packet = dama_take(&dama)))
		free(packet);
	for (i = 0; i < dama.values.terminals; i++)
		assert(!dama_queued_bytes(&dama.terminals[i]) && !dama.terminals[i].left_bytes);
	assert(!dama.waiting && !dama.leaving_packets);
	free(terminals);
	free(requests);
	free(bins);
}

int main(void)
{
	char line[LINE_BYTES];
	unsigned int terminal, class, bytes;
	u64 time_us, number = 0, rate_bps;
	bool started = false;

	while (fgets(line, sizeof(line), stdin)) {
		if (!started) {
			start(line);
			started = true;
			number = 0;
		} else if (sscanf(line, "look %" SCNu64, &time_us) == 1) {
			advance(time_us);
			look("look");
		} else if (!strncmp(line, "give ", strlen("give "))) {
			give(line);
		} else if (sscanf(line, "wish %" SCNu64 " %u %" SCNu64, &time_us, &terminal, &rate_bps) == 3) {
			wish(time_us, terminal, rate_bps);
		} else if (sscanf(line, "end %" SCNu64, &time_us) == 1) {
			end(time_us);
			started = false;
		} else if (sscanf(line, "%" SCNu64 " %u %u %u", &time_us, &terminal, &class, &bytes) == 4) {
			arrive(time_us, terminal, class, bytes, number++);
		} else {
			printf("no line of a scenario: %s", line);
			return 1;
		}
	}
	return started;
}
