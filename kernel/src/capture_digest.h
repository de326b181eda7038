/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The digest of an interface's packets: 128 bits, no cryptographic hash
 * (docs/method/README.md, "The digest of an interface").
 *
 * A packet's record is its time, its length and its bytes, filled up with zeros to
 * 64 bits. Of each PIECE of its words the sum of the products with as many keys is
 * taken, exact. The digest is the polynomial of these sums modulo 2^128 - 159.
 */
#ifndef CAPTURE_DIGEST_H
#define CAPTURE_DIGEST_H

#include <linux/string.h>
#include <linux/types.h>
#include <linux/unaligned.h>

#define BASE	0x243f6a8885a308d3ULL	/* the first 64 bits of pi's fraction */
#define PIECE	192			/* words; an Ethernet frame of 1514 bytes is one piece */
#define BELOW_64	59		/* 2^64 - 59 and 2^128 - 159 are primes */
#define BELOW_128	159

struct digest {
	u128 value;
	/* Of the piece in hand: the sum, as the high word and the rest, and its words. */
	u64 sum_high;
	u128 sum;
	unsigned int words;
	/* Bytes that are no whole word yet. */
	u8 rest[sizeof(u64)];
	unsigned int rest_size;
};

static u64 digest_keys[PIECE];

static void digest_make_keys(void)
{
	u64 key = 1;
	int i;

	for (i = 0; i < PIECE; i++) {
		u128 product = (u128)key * BASE;

		product = (product >> 64) * BELOW_64 + (u64)product;
		product = (product >> 64) * BELOW_64 + (u64)product;
		key = product;
		if (product >> 64 || key >= -(u64)BELOW_64)
			key += BELOW_64;
		digest_keys[i] = key;
	}
}

/* value * BASE + sum; below 2^128, but not always below the prime. */
static void digest_end_piece(struct digest *digest)
{
	u128 value = (u128)(u64)digest->value * BASE;
	u128 middle = (u128)(u64)(digest->value >> 64) * BASE;
	u64 high = digest->sum_high;
	u128 above;

	value += middle << 64;
	high += value < middle << 64;
	value += digest->sum;
	high += value < digest->sum;
	above = ((middle >> 64) + high) * BELOW_128;
	value += above;
	if (value < above)
		value += BELOW_128;
	digest->value = value;
	digest->sum = 0;
	digest->sum_high = 0;
	digest->words = 0;
}

static void digest_add_words(struct digest *digest, const u8 *data, size_t count)
{
	while (count) {
		size_t part = min_t(size_t, count, PIECE - digest->words);
		const u64 *key = digest_keys + digest->words, *end = key + part;
		u64 high = digest->sum_high;
		u128 sum = digest->sum;

		for (; key < end; key++, data += sizeof(u64)) {
			u128 product = (u128)get_unaligned((const u64 *)data) * *key;

			sum += product;
			high += sum < product;
		}
		digest->sum = sum;
		digest->sum_high = high;
		digest->words += part;
		count -= part;
		if (digest->words == PIECE)
			digest_end_piece(digest);
	}
}

static void digest_add(struct digest *digest, const u8 *data, size_t size)
{
	if (digest->rest_size) {
		size_t part = min_t(size_t, size, sizeof(u64) - digest->rest_size);

		memcpy(digest->rest + digest->rest_size, data, part);
		digest->rest_size += part;
		data += part;
		size -= part;
		if (digest->rest_size < sizeof(u64))
			return;
		digest_add_words(digest, digest->rest, 1);
	}
	digest_add_words(digest, data, size / sizeof(u64));
	digest->rest_size = size % sizeof(u64);
	memcpy(digest->rest, data + size - digest->rest_size, digest->rest_size);
}

static void digest_begin_record(struct digest *digest, u64 time_ns, u64 length)
{
	u64 head[] = { time_ns, length };

	digest_add(digest, (u8 *)head, sizeof(head));
}

static void digest_end_record(struct digest *digest)
{
	const u8 zeros[sizeof(u64)] = {};

	if (digest->rest_size)
		digest_add(digest, zeros, sizeof(u64) - digest->rest_size);
	if (digest->words)
		digest_end_piece(digest);
}

static u128 digest_value(const struct digest *digest)
{
	const u128 prime = -(u128)BELOW_128;

	return digest->value >= prime ? digest->value - prime : digest->value;
}

#endif
