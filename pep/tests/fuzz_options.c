// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Fuzzes all that satpep parses, its command line: `fuzz_options SECONDS [SEED]`, built under ASan and UBSan. The entry is
 * libFuzzer's as well (clang -fsanitize=fuzzer -DLIBFUZZER). Arguments are separated by newlines.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../src/options.h"

enum { MOST_ARGUMENTS = 16, MOST_BYTES = 256 };

/* What a leg's options may be once they were accepted. */
static void check(const struct leg_options *leg)
{
	assert(memchr(leg->cc, '\0', sizeof(leg->cc)));
	assert(!leg->mss || (leg->mss >= 88 && leg->mss <= 32767));
	assert(!leg->sndbuf_bytes || leg->sndbuf_bytes >= 4096);
	assert(!leg->rcvbuf_bytes || leg->rcvbuf_bytes >= 4096);
	assert(leg->keepalive_s >= 0 && leg->keepalive_s <= 32767);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char text[MOST_BYTES + 1], error[64] = "", *argv[MOST_ARGUMENTS + 2] = {"satpep"};
	struct options options;
	int argc = 1;
	bytes = bytes < MOST_BYTES ? bytes : MOST_BYTES;
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (char *word = strtok(text, "\n"); word && argc <= MOST_ARGUMENTS; word = strtok(NULL, "\n"))
		argv[argc++] = word;
	switch (options_parse(argc, argv, &options, error, sizeof(error))) {
	case PARSED_RUN:
		check(&options.legs[CLIENT]);
		check(&options.legs[SERVER]);
		assert(options.port && options.max_connections >= 1 && options.pipe_bytes >= 4096);
		assert(options.max_per_client >= 0 && options.drain_s >= 0);
		break;
	case PARSED_WRONG:
		assert(*error && memchr(error, '\0', sizeof(error)));
		break;
	case PARSED_SHOWN:
		break;
	}
	return 0;
}

#ifndef LIBFUZZER
static const char *const words[] = {
	"-C", "bbr", "--client", "--server", "cc=cubic", ",", "=", "mss=1460", "sndbuf=4M", "rcvbuf=16k", "nodelay=1", "quickack=0",
	"fastopen=1", "-m", "88", "32767", "-n", "-q", "-f", "-p", "5000", "65535", "-c", "2112", "-t", "1", "-l", "-", "-g", "0",
	"-u", "nobody", "-d", "-v", "--pipe", "1M", "--connect-timeout", "30",
	"--per-client", "--drain", "keepalive=600", "--", "99999999999999999999", "-1", "k", "M", "\n", "\n",
};

/* A few of the words in a row, with some bytes changed. */
static size_t make(uint8_t *data)
{
	size_t bytes = 0;
	for (int count = 1 + rand() % 12; count; count--) {
		const char *word = words[(size_t)rand() % (sizeof(words) / sizeof(words[0]))];
		size_t length = strlen(word);
		if (bytes + length + 1 >= MOST_BYTES)
			break;
		memcpy(data + bytes, word, length);
		bytes += length;
		if (rand() % 2)
			data[bytes++] = '\n';
	}
	for (int count = rand() % 4; count; count--)
		data[(size_t)rand() % bytes] = (uint8_t)rand();
	return bytes;
}

int main(int argc, char **argv)
{
	uint8_t data[MOST_BYTES];
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
	unsigned long inputs = 0;
	srand(argc > 2 ? (unsigned)atoi(argv[2]) : 1);
	if (!freopen("/dev/null", "w", stdout))
		return 1;
	for (; time(NULL) < end; inputs += 1000)
		for (int i = 0; i < 1000; i++)
			LLVMFuzzerTestOneInput(data, make(data));
	fprintf(stderr, "%lu command lines, none broke anything\n", inputs);
	return 0;
}
#endif
