/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A return link whose capacity is assigned on demand (DAMA): the terminals' queues, what they
 * ask the network control centre (NCC) for, what it grants, and the bursts that are sent.
 * docs/method/return-link.md says what the model is.
 *
 * The same source is part of the module and of a program that tests run in user space. It knows
 * no clock: each call says what time it is. All numbers are integers, so that the same packets at
 * the same times leave at the same times on every machine.
 */
#ifndef DAMA_CORE_H
#define DAMA_CORE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint16_t u16;
typedef uint8_t u8;
#endif

#define DAMA_CLASSES 5		/* NM, EF, SIG, AF, BE: the first goes first */
#define DAMA_TERMINALS 1024
#define DAMA_RING 512		/* superframes, or requests, that are under way at once */
#define DAMA_SLOT (1ULL << 16)	/* parts of a slot */
#define DAMA_MOST_WEIGHT 1000
#define DAMA_CREDITS 64		/* ranks of terminals by their credit */
#define DAMA_RA_SLOTS 256
#define DAMA_RA_REPLICAS 5
#define DAMA_BINS 1024		/* of access delays: 32 for each power of two microseconds */

enum dama_algorithm {
	DAMA_OPENSAND,		/* its formulas */
	DAMA_OPENSAND_8_2,	/* with the mistakes of that version */
	DAMA_SNS3,
	DAMA_ALGORITHMS
};

enum dama_random_access { DAMA_DEDICATED, DAMA_ALOHA, DAMA_CRDSA, DAMA_RANDOM_ACCESSES };

struct dama_values {
	u64 superframe_us;
	u64 delay_us;			/* one way, terminal to NCC and back */
	u64 processing_us;		/* of a grant */
	u64 request_period;		/* in superframes, as all without a unit below */
	u64 request_rtt;		/* what a terminal takes for the time until a request is answered */
	u64 rbdc_life;
	u64 vbdc_life;
	u64 slots;			/* of all terminals in a superframe */
	u64 burst_bytes;		/* that a slot carries */
	u64 label_bytes;		/* RLE: in the header of a packet, or of its first fragment */
	u64 check_bytes;		/* RLE: behind the last fragment */
	u64 algorithm;
	u64 over_request_pct;
	u64 cra_bps;
	u64 rbdc_bps;			/* at most, beyond CRA (SNS3: with it) */
	u64 vbdc_bytes;			/* at most, that wait at the NCC */
	u64 fca_bps;			/* at most, of what nobody has asked for */
	u64 queue_bytes;		/* of each class of a terminal */
	u64 queue_packets;
	u64 random_access;		/* of a first request */
	u64 ra_frame;
	u64 ra_slots;			/* in a frame of random access */
	u64 ra_replicas;
	u64 ra_backoff;			/* at most, after the answer did not come */
	u64 terminals;			/* that have packets */
	u64 simulated;			/* that only ask, behind those */
	u64 simulated_bps;		/* mean of what they send while they send */
	u64 simulated_deviation_bps;
	u64 simulated_on_us;		/* mean time that one sends, */
	u64 simulated_off_us;		/* and that it is silent; 0: never */
	u64 seed;			/* of the simulated terminals and of random access */
};

/* What one terminal has and may ask for. At the start it is what the values say of all, with a weight of 1. */
struct dama_share {
	u64 cra_bps;
	u64 rbdc_bps;
	u64 vbdc_bytes;
	u64 weight;			/* of its requests for a rate where there is too little, and of FCA */
};

struct dama_packet {
	struct dama_packet *next;
	void *cookie;			/* the caller's */
	u64 arrived_ns;
	u64 leaves_ns;
	u32 bytes;
	u32 left;			/* bytes that are in no burst yet */
	u16 terminal;
	u8 class;
};

struct dama_list {
	struct dama_packet *first;
	struct dama_packet *last;
};

struct dama_count {
	u64 packets;
	u64 bytes;
};

struct dama_class {
	struct dama_list waiting;
	struct dama_count in;		/* = out + dropped + queued */
	struct dama_count out;
	struct dama_count dropped;
	struct dama_count queued;
	u32 *bins;			/* how many packets have waited how long */
};

struct dama_request {
	u64 made;			/* superframe */
	u64 rate_bps;
	u64 volume_bytes;
	bool renews;			/* the volume replaces what the NCC knows */
	bool has_rate;
};

struct dama_terminal {
	struct dama_class classes[DAMA_CLASSES];
	struct dama_share share;
	u64 cra_parts;			/* of a slot, in a superframe */
	u64 fca_parts;
	u64 wish_bps;			/* that a proxy beside it wants it to ask for */
	u64 left_bytes;			/* that are in no burst yet */
	u64 asked_for_bytes;		/* that arrived since the last chance to ask */
	u64 last_chance;		/* superframe */
	u64 last_request;		/* superframe + 1; 0: never */
	struct dama_request *requests;	/* a ring */
	u32 first_request;		/* that still counts as not answered */
	u32 first_travelling;		/* that the NCC has not got */
	u32 next_request;
	u32 grants[DAMA_RING];		/* slots of a superframe, modulo the ring */
	/* What the NCC knows: */
	u64 rbdc_bps;
	u64 rbdc_until;			/* superframe */
	u64 rbdc_want;			/* in parts of a slot, per superframe */
	u64 vbdc_bytes;
	u64 vbdc_until;
	u64 credit;			/* parts of a slot */
	u64 granted_parts;		/* of this superframe, of its rate */
	/* What has been done: */
	u64 granted_slots;
	u64 used_slots;
	u64 used_bytes;			/* of packets */
	u64 header_bytes;
	u64 padded_bytes;		/* in bursts that were sent */
	u64 request_count;
	u64 collisions;
	/* Random access: */
	u64 ra_not_before;
	u16 ra_slots[DAMA_RA_REPLICAS];
	bool ra_sends;		/* and was not heard yet */
	/* Simulated: */
	u64 random;
	bool sends;
	u64 rate_bps;
	u64 changes;			/* superframe */
	u64 remainder;
};

struct dama {
	struct dama_values values;
	u64 origin_ns;
	u64 superframe;			/* the next one */
	u64 up;				/* superframes that a request takes, */
	u64 down;			/* and that a grant takes */
	u64 busy_until;			/* superframe: until then somebody may be granted what it asked for */
	u64 cra_parts;			/* of all terminals */
	u32 wishes;			/* terminals that have one */
	u64 waiting;			/* packets in queues */
	u64 leaving_packets;
	struct dama_list leaving;	/* in their order */
	u64 most_granted;		/* slots of one superframe */
	u64 random;			/* of random access */
	u16 ra_senders[DAMA_RA_SLOTS];
	u32 count;
	struct dama_terminal *terminals;
};

/* The value of that name, or NULL. */
u64 *dama_value(struct dama_values *values, const char *name);

/* What is wrong with the values, or NULL. */
const char *dama_check(const struct dama_values *values);

/* Both arrays are zero: `terminals` of all, real and simulated ones; DAMA_RING `requests` and, of real ones,
 * DAMA_CLASSES * DAMA_BINS `bins` for each of them. */
void dama_start(struct dama *dama, const struct dama_values *values, struct dama_terminal *terminals,
		struct dama_request *requests, u32 *bins, u64 now_ns);

/* The number of a terminal's share of that name, or NULL. */
u64 *dama_share_value(struct dama_share *share, const char *name);

/* Gives a terminal a share of its own, from now on. Returns what is wrong with it, or NULL. After dama_advance. */
const char *dama_give(struct dama *dama, u32 number, const struct dama_share *share);

/* A proxy wants a terminal to ask for this rate at least, from its next chance on; 0: no longer. After dama_advance. */
void dama_wish(struct dama *dama, u32 number, u64 rate_bps);

/* All that happens until then, in its order. */
void dama_advance(struct dama *dama, u64 now_ns);

/* The packet has `bytes`, `terminal` and `class`. False: its queue is full. After dama_advance. */
bool dama_arrive(struct dama *dama, struct dama_packet *packet, u64 now_ns);

/* A packet that has left by then, or NULL. After dama_advance. */
struct dama_packet *dama_leave(struct dama *dama, u64 now_ns);

/* When to ask again; ~0: not before a packet arrives. */
u64 dama_next_ns(const struct dama *dama);

/* Any packet that is still here, or NULL. */
struct dama_packet *dama_take(struct dama *dama);

/* Access delay that this share of a class's packets has not exceeded, within 2 %. */
u64 dama_delay_us(const struct dama_class *class, u32 percent);

u64 dama_queued_bytes(const struct dama_terminal *terminal);

#endif
