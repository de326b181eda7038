// SPDX-License-Identifier: GPL-3.0-or-later
#include "statistics.h"

#include <inttypes.h>
#include <time.h>

#include "connection.h"

double statistics_time_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void statistics_ready(struct log *log, uint16_t port)
{
	log_add(log, "{\"event\": \"ready\", \"time_s\": %.6f, \"port\": %u}", statistics_time_s(), port);
	log_end(log);
	log_flush(log);
}

void statistics_connection(struct log *log, const char *event, const struct connection *connection)
{
	static const char *const names[SIDES] = {"client", "server"};
	if (log->fd < 0)
		return;
	double now_s = statistics_time_s();
	log_add(log, "{\"event\": \"%s\", \"time_s\": %.6f, \"id\": %" PRIu64 ", ", event, now_s, connection->id);
	if (connection->outcome)
		log_add(log, "\"outcome\": \"%s\", ", connection->outcome);
	for (int side = 0; side < SIDES; side++) {
		char text[ADDRESS_TEXT_BYTES];
		log_add(log, "\"%s\": \"%s\", ", names[side], address_text(&connection->ends[side], text));
	}
	log_add(log, "\"duration_s\": %.6f, \"bytes_to_server\": %" PRIu64 ", \"bytes_to_client\": %" PRIu64,
		now_s - connection->accepted_s, connection->relays[CLIENT].bytes, connection->relays[SERVER].bytes);
	for (int side = 0; side < SIDES; side++) {
		if (connection->legs[side].fd < 0)
			continue;
		log_add(log, ", \"%s_leg\": ", names[side]);
		leg_describe(&connection->legs[side], log);
	}
	log_add(log, "}");
	log_end(log);
}

void statistics_admission(struct log *log, bool full, int open)
{
	log_add(log, "{\"event\": \"%s\", \"time_s\": %.6f, \"open\": %d}", full ? "full" : "room", statistics_time_s(), open);
	log_end(log);
}

void statistics_totals(struct log *log, const struct totals *totals)
{
	uint64_t spliced_bytes = totals->bytes[0] + totals->bytes[1] - totals->copied_bytes;
	log_add(log, "{\"event\": \"totals\", \"time_s\": %.6f, \"accepted\": %" PRIu64 ", \"connected\": %" PRIu64 ", ",
		statistics_time_s(), totals->accepted, totals->connected);
	log_add(log, "\"ended\": %" PRIu64 ", \"open\": %d, \"most_open\": %d, ", totals->ended, totals->open, totals->most_open);
	log_add(log, "\"turned_away\": %" PRIu64 ", \"dropped_lines\": %" PRIu64 ", ", totals->turned_away, log->dropped);
	log_add(log, "\"bytes_to_server\": %" PRIu64 ", \"bytes_to_client\": %" PRIu64 ", ", totals->bytes[CLIENT],
		totals->bytes[SERVER]);
	log_add(log, "\"bytes_spliced\": %" PRIu64 ", \"bytes_copied\": %" PRIu64 "}", spliced_bytes, totals->copied_bytes);
	log_end(log);
}
