// SPDX-License-Identifier: GPL-3.0-or-later
#include "options.h"

#include <ctype.h>
#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "1.0"

static const char help[] =
	"satpep " VERSION ": a transparent proxy that splits TCP connections, for satellite links (RFC 3135)\n"
	"\n"
	"usage: satpep [-p PORT] [-C CC] [--client KEY=VALUE,...] [--server KEY=VALUE,...] [option...]\n"
	"\n"
	"A TPROXY rule brings it the connections; it ends each one here and opens another one to the server, from\n"
	"the client's address. The leg towards the client and the leg towards the server are set apart:\n"
	"  --client KEY=VALUE,...   --server KEY=VALUE,...\n"
	"      cc=NAME              congestion control, for all that this host sends on the leg\n"
	"      mss=BYTES            largest segment, in both directions (88 to 32767)\n"
	"      initcwnd=SEGMENTS    initial congestion window (without it the route's, or 10)\n"
	"      sndbuf=BYTES         send buffer (k, M: 1024, 1024 * 1024); without it the kernel tunes it,\n"
	"      rcvbuf=BYTES         receive buffer likewise, within net.ipv4.tcp_wmem and tcp_rmem\n"
	"      nodelay=0|1          send small segments at once (TCP_NODELAY)\n"
	"      quickack=0|1         acknowledge every segment at once (TCP_QUICKACK)\n"
	"      fastopen=0|1         data in the first packet (RFC 7413)\n"
	"      keepalive=SECONDS    ask an end that is silent for so long whether it is there (600; 0: never)\n"
	"Both legs at once, in order with the above, with the letters of pepsal:\n"
	"  -C CC  -m MSS  -n (nodelay)  -q (quickack)  -f (fastopen)\n"
	"\n"
	"  -p, --port PORT             where the TPROXY rule sends connections to (5000)\n"
	"  -c, --conns N               connections at a time (2112); more pass by, unsplit\n"
	"      --per-client N          connections at a time of one client's address (0: all); likewise\n"
	"  -t, --plifetime S           connections without a byte for so long are reset (18000)\n"
	"      --connect-timeout S     time that a server has to answer (30)\n"
	"      --pipe BYTES            most that waits between the legs, per direction (262144)\n"
	"      --drain S               time that connections have to end after SIGTERM (30); new ones pass by\n"
	"  -l, --logfile FILE          statistics, a JSON object a line; - is the standard output; SIGHUP reopens it\n"
	"  -g, --totals-interval S     totals go there this often as well (0: at the end, and upon SIGUSR1)\n"
	"  -u, --user NAME             user to become once started (satpep); \"\" to stay\n"
	"  -d, --daemon                go to the background when ready\n"
	"  -v, --verbose               say what happens to every connection\n"
	"  -h, --help  -V, --version\n"
	"\n"
	"The rules that it needs and the statistics are in satpep(8).\n";

struct numeric {
	const char *key;
	long least, most;
	size_t place;
	bool flag;
};

#define LEG(key, least, most, member, flag) {key, least, most, offsetof(struct leg_options, member), flag}

static const struct numeric leg_keys[] = {
	LEG("mss", 88, 32767, mss, false),
	LEG("initcwnd", 1, 10000, initcwnd, false),
	LEG("sndbuf", 4096, INT_MAX / 2, sndbuf_bytes, false),
	LEG("rcvbuf", 4096, INT_MAX / 2, rcvbuf_bytes, false),
	LEG("nodelay", 0, 1, nodelay, true),
	LEG("quickack", 0, 1, quickack, true),
	LEG("fastopen", 0, 1, fastopen, true),
	LEG("keepalive", 0, 32767, keepalive_s, false),
};

enum { LEG_KEYS = sizeof(leg_keys) / sizeof(leg_keys[0]) };

struct said {
	char *error;
	unsigned long bytes;
};

static bool wrong(const struct said *said, const char *format, const char *what, const char *value, long least, long most)
{
	snprintf(said->error, said->bytes, format, what, value, least, most);
	return false;
}

/* A whole number with an optional k or M, within its limits. */
static bool number(const char *what, const char *text, long least, long most, long *value, const struct said *said)
{
	char *end;
	long read = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : (end = (char *)text, 0);
	long factor = *end == 'k' ? 1024 : *end == 'M' ? 1024 * 1024 : 1;
	bool whole = end != text && (*end == '\0' || (factor != 1 && end[1] == '\0'));
	if (!whole || read > most / factor || read * factor < least)
		return wrong(said, "%s %s: should be a whole number from %ld to %ld", what, text, least, most);
	*value = read * factor;
	return true;
}

static bool copy_name(const char *what, const char *text, char *name, size_t bytes, bool may_be_empty, const struct said *said)
{
	size_t length = strlen(text);
	bool good = length < bytes && (length > 0 || may_be_empty);
	for (size_t i = 0; i < length; i++)
		good = good && (isalnum((unsigned char)text[i]) || strchr("_-.", text[i]));
	if (!good)
		return wrong(said, "%s '%s': should be a name of letters, digits, _ - and ., of %ld to %ld characters", what, text,
			     may_be_empty ? 0 : 1, (long)bytes - 1);
	memcpy(name, text, length + 1);
	return true;
}

static bool set_leg(struct leg_options *leg, const char *where, const char *key, const char *value, const struct said *said)
{
	char what[64];
	snprintf(what, sizeof(what), "%s %.20s", where, key);
	if (!strcmp(key, "cc"))
		return copy_name(what, value, leg->cc, sizeof(leg->cc), false, said);
	for (int i = 0; i < LEG_KEYS; i++) {
		if (strcmp(key, leg_keys[i].key))
			continue;
		long read;
		if (!number(what, value, leg_keys[i].least, leg_keys[i].most, &read, said))
			return false;
		char *place = (char *)leg + leg_keys[i].place;
		if (leg_keys[i].flag)
			*(bool *)place = read;
		else
			*(int *)place = (int)read;
		return true;
	}
	return wrong(said, "%s %s: there is no such key; the keys are cc, mss, initcwnd, sndbuf, rcvbuf, nodelay, quickack, fastopen, "
		     "keepalive",
		     where, key, 0, 0);
}

/* KEY=VALUE,KEY=VALUE,... */
static bool set_leg_from_list(struct leg_options *leg, const char *where, const char *text, const struct said *said)
{
	char pair[64];
	while (*text) {
		size_t length = strcspn(text, ",");
		if (length >= sizeof(pair))
			return wrong(said, "%s %.40s...: should be KEY=VALUE,...", where, text, 0, 0);
		memcpy(pair, text, length);
		pair[length] = '\0';
		char *value = strchr(pair, '=');
		if (!value)
			return wrong(said, "%s %s: should be KEY=VALUE,...", where, pair, 0, 0);
		*value++ = '\0';
		if (!set_leg(leg, where, pair, value, said))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}

static bool set_legs(struct options *options, const char *where, const char *key, const char *value, const struct said *said)
{
	return set_leg(&options->legs[CLIENT], where, key, value, said) && set_leg(&options->legs[SERVER], where, key, value, said);
}

static bool set_int(int *place, const char *what, const char *text, long least, long most, const struct said *said)
{
	long value;
	if (!number(what, text, least, most, &value, said))
		return false;
	*place = (int)value;
	return true;
}

enum { LONG_CLIENT = 256, LONG_SERVER, LONG_CONNECT_TIMEOUT, LONG_PIPE, LONG_PER_CLIENT, LONG_DRAIN };

static const struct option long_options[] = {
	{"client", required_argument, NULL, LONG_CLIENT},
	{"server", required_argument, NULL, LONG_SERVER},
	{"connect-timeout", required_argument, NULL, LONG_CONNECT_TIMEOUT},
	{"pipe", required_argument, NULL, LONG_PIPE},
	{"per-client", required_argument, NULL, LONG_PER_CLIENT},
	{"drain", required_argument, NULL, LONG_DRAIN},
	{"congestion-algo", required_argument, NULL, 'C'},
	{"max-segment-size", required_argument, NULL, 'm'},
	{"nodelay", no_argument, NULL, 'n'},
	{"quickack", no_argument, NULL, 'q'},
	{"fastopen", no_argument, NULL, 'f'},
	{"port", required_argument, NULL, 'p'},
	{"conns", required_argument, NULL, 'c'},
	{"plifetime", required_argument, NULL, 't'},
	{"logfile", required_argument, NULL, 'l'},
	{"totals-interval", required_argument, NULL, 'g'},
	{"user", required_argument, NULL, 'u'},
	{"daemon", no_argument, NULL, 'd'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static bool set(struct options *options, int option, const char *value, const struct said *said)
{
	int port;
	switch (option) {
	case LONG_CLIENT:
		return set_leg_from_list(&options->legs[CLIENT], "--client", value, said);
	case LONG_SERVER:
		return set_leg_from_list(&options->legs[SERVER], "--server", value, said);
	case LONG_CONNECT_TIMEOUT:
		return set_int(&options->connect_timeout_s, "--connect-timeout", value, 1, 3600, said);
	case LONG_PIPE:
		return set_int(&options->pipe_bytes, "--pipe", value, 4096, 1 << 20, said);
	case LONG_PER_CLIENT:
		return set_int(&options->max_per_client, "--per-client", value, 0, 100000, said);
	case LONG_DRAIN:
		return set_int(&options->drain_s, "--drain", value, 0, 86400, said);
	case 'C':
		return set_legs(options, "-C", "cc", value, said);
	case 'm':
		return set_legs(options, "-m", "mss", value, said);
	case 'n':
		return set_legs(options, "-n", "nodelay", "1", said);
	case 'q':
		return set_legs(options, "-q", "quickack", "1", said);
	case 'f':
		return set_legs(options, "-f", "fastopen", "1", said);
	case 'p':
		if (!set_int(&port, "-p", value, 1, 65535, said))
			return false;
		options->port = (uint16_t)port;
		return true;
	case 'c':
		return set_int(&options->max_connections, "-c", value, 1, 100000, said);
	case 't':
		return set_int(&options->lifetime_s, "-t", value, 1, 10 * 365 * 86400, said);
	case 'l':
		options->log_file = value;
		return true;
	case 'g':
		return set_int(&options->totals_interval_s, "-g", value, 0, 86400, said);
	case 'u':
		return copy_name("-u", value, options->user, sizeof(options->user), true, said);
	case 'd':
		options->daemon = true;
		return true;
	case 'v':
		options->verbose = true;
		return true;
	default:
		return false;
	}
}

enum parsed options_parse(int argc, char **argv, struct options *options, char *error, unsigned long error_bytes)
{
	const struct said said = {error, error_bytes};
	*options = (struct options){
		.port = 5000,
		.max_connections = 2112,
		.pipe_bytes = 256 << 10,
		.connect_timeout_s = 30,
		.lifetime_s = 5 * 3600,
		.drain_s = 30,
		.user = "satpep",
	};
	options->legs[CLIENT].keepalive_s = options->legs[SERVER].keepalive_s = 600;
	optind = 0;
	opterr = 0;
	for (int option; (option = getopt_long(argc, argv, "+:C:m:nqfp:c:t:l:g:u:dvhV", long_options, NULL)) != -1;) {
		if (option == 'h' || option == 'V') {
			fputs(option == 'h' ? help : "satpep " VERSION "\n", stdout);
			return PARSED_SHOWN;
		}
		if (option == '?' || option == ':') {
			const char *reason = option == ':' ? "needs a value" : "is not an option";
			snprintf(error, error_bytes, "%.60s %s; satpep --help lists them all", argv[optind - 1], reason);
			return PARSED_WRONG;
		}
		if (!set(options, option, optarg, &said))
			return PARSED_WRONG;
	}
	if (optind < argc) {
		snprintf(error, error_bytes, "%.60s: satpep takes options only", argv[optind]);
		return PARSED_WRONG;
	}
	return PARSED_RUN;
}
