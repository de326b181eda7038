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
 *	class TERMINAL CLASS …		packets and bytes: in, out, dropped, lost, queued; access delay: median, 95 %
 *	end TERMINAL …			slots granted, used; bytes used, of headers, padded, queued; requests; collisions
 */
#include "link_program.h"

static void start(char *line)
{
	struct dama_values *values = &link.values;

	memset(&link, 0, sizeof(link));
	read_numbers(strtok(line, " \n"), dama_value_names, values);
	if (dama_check(values))
		fail("wrong", dama_check(values));
	u64 count = values->terminals + values->simulated;

	link.terminals = calloc(count, sizeof(*link.terminals));
	link.requests = calloc(count * DAMA_RING, sizeof(*link.requests));
	link.bins = calloc(values->terminals * LINK_CLASSES * LINK_BINS, sizeof(*link.bins));
	assert(link.terminals && link.requests && link.bins);
	link_start(&link, 0);
	now_us = 0;
}

static void give(char *line)
{
	const char *wrong;
	u32 number = strtoul(strtok(line + strlen("give "), " \n"), NULL, 10);

	assert(number < link.values.terminals);
	struct dama_share share = link.terminals[number].share;

	read_numbers(strtok(NULL, " \n"), dama_share_names, &share);
	wrong = dama_give(&link, number, &share);
	if (wrong)
		printf("wrong %s\n", wrong);
}

static void wish(u64 time_us, unsigned int number, u64 rate_bps)
{
	assert(number < link.values.terminals);
	advance(time_us);
	dama_wish(&link, number, rate_bps);
}

static void look(const char *word)
{
	u32 i;

	for (i = 0; i < link.count; i++) {
		const struct dama_terminal *one = &link.terminals[i];

		printf("%s %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
		       word, i, one->granted_slots, one->used_slots, one->used_bytes, one->header_bytes, one->padded_bytes,
		       link_queued_bytes(one->classes), one->request_count, one->collisions);
	}
}

static void end(u64 time_us)
{
	struct link_packet *packet;
	u32 i;

	advance(time_us);
	printf("next %" PRIu64 "\nmost %" PRIu64 "\n", link_next_ns(&link), link.most_granted);
	for (i = 0; i < link.count; i++)
		show_classes(i, link.terminals[i].classes);
	look("end");
	printf("\n");
	while ((packet = link_take(&link)))
		free(packet);
	for (i = 0; i < link.values.terminals; i++)
		assert(!link_queued_bytes(link.terminals[i].classes) && !link.terminals[i].left_bytes);
	assert(!link.waiting && !link.leaving.first);
	free(link.terminals);
	free(link.requests);
	free(link.bins);
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
			fail("no line of a scenario:", line);
		}
	}
	return started;
}
