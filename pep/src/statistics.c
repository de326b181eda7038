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

void statistics_ready(FILE *out, uint16_t port)
{
	fprintf(out, "{\"event\": \"ready\", \"time_s\": %.6f, \"port\": %u}\n", statistics_time_s(), port);
}

void statistics_connection(FILE *out, const char *event, const struct connection *connection)
{
	static const char *const names[SIDES] = {"client", "server"};
	double now_s = statistics_time_s();
	fprintf(out, "{\"event\": \"%s\", \"time_s\": %.6f, \"id\": %" PRIu64 ", ", event, now_s, connection->id);
	if (connection->outcome)
		fprintf(out, "\"outcome\": \"%s\", ", connection->outcome);
	for (int side = 0; side < SIDES; side++) {
		char text[ADDRESS_TEXT_BYTES];
		fprintf(out, "\"%s\": \"%s\", ", names[side], address_text(&connection->ends[side], text));
	}
	fprintf(out, "\"duration_s\": %.6f, \"bytes_to_server\": %" PRIu64 ", \"bytes_to_client\": %" PRIu64,
		now_s - connection->accepted_s, connection->relays[CLIENT].bytes, connection->relays[SERVER].bytes);
	for (int side = 0; side < SIDES; side++) {
		if (connection->legs[side].fd < 0)
			continue;
		fprintf(out, ", \"%s_leg\": ", names[side]);
		leg_describe(&connection->legs[side], out);
	}
	fprintf(out, "}\n");
}

void statistics_totals(FILE *out, const struct totals *totals)
{
	fprintf(out, "{\"event\": \"totals\", \"time_s\": %.6f, \"accepted\": %" PRIu64 ", \"connected\": %" PRIu64 ", ",
		statistics_time_s(), totals->accepted, totals->connected);
	fprintf(out, "\"ended\": %" PRIu64 ", \"open\": %d, \"most_open\": %d, ", totals->ended, totals->open, totals->most_open);
	fprintf(out, "\"bytes_to_server\": %" PRIu64 ", \"bytes_to_client\": %" PRIu64 "}\n", totals->bytes[CLIENT],
		totals->bytes[SERVER]);
}
