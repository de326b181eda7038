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
#include "link_program.h"

static u64 changes;

static void begin(char *line)
{
	memset(&link, 0, sizeof(link));
	read_numbers(strtok(line, " \n"), dvbs2_value_names, &link.values);
	if (dvbs2_check_values(&link.values))
		fail("wrong", dvbs2_check_values(&link.values));
	link.terminals = calloc(link.values.terminals, sizeof(*link.terminals));
	link.changes = calloc(link.values.changes + 1, sizeof(*link.changes));
	link.bins = calloc(link.values.terminals * LINK_CLASSES * LINK_BINS, sizeof(*link.bins));
	assert(link.terminals && link.changes && link.bins);
	changes = 0;
}

static void go(void)
{
	if (changes != link.values.changes || dvbs2_check(&link))
		fail("wrong", changes != link.values.changes ? "changes" : dvbs2_check(&link));
	link_start(&link, 0);
	now_us = 0;
}

static void end(u64 time_us)
{
	struct link_packet *packet;
	u32 i, c;

	advance(time_us);
	printf("next %" PRIu64 "\n", link_next_ns(&link));
	for (i = 0; i < DVBS2_MODCODS; i++) {
		const struct dvbs2_modcod *one = &link.modcods[i];

		if (one->frames)
			printf("modcod %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, one->frames,
			       one->lost_frames, one->used_bytes, one->header_bytes, one->padded_bytes);
	}
	for (i = 0; i < link.values.terminals; i++) {
		const struct dvbs2_terminal *one = &link.terminals[i];

		show_classes(i, one->classes);
		printf("terminal %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", i, one->modcod,
		       one->frames, one->lost_frames, one->used_bytes, one->header_bytes, link_queued_bytes(one->classes));
	}
	printf("end\n");
	while ((packet = link_take(&link)))
		free(packet);
	for (i = 0; i < link.values.terminals; i++)
		assert(!link_queued_bytes(link.terminals[i].classes));
	for (c = 0; c < LINK_CLASSES; c++)
		assert(!link.waiting[c]);
	free(link.terminals);
	free(link.changes);
	free(link.bins);
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
			link.modcods[one].bytes = two;
			link.modcods[one].symbols = three;
		} else if (sscanf(line, "change %" SCNu64 " %u %u %u", &time_us, &one, &two, &three) == 4) {
			assert(changes < link.values.changes);
			link.changes[changes++] = (struct dvbs2_change){ time_us, one, two, three };
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
