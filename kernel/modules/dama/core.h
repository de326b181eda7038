/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A return link whose capacity is assigned on demand (DAMA): the terminals' queues, what they
 * ask the network control centre (NCC) for, what it grants, and the bursts that are sent.
 * docs/method/return-link.md says what the model is.
 */
#ifndef DAMA_CORE_H
#define DAMA_CORE_H

#include "link.h"

#define DAMA_RING 512		/* superframes, or requests, that are under way at once */
#define DAMA_SLOT (1ULL << 16)	/* parts of a slot */
#define DAMA_MOST_WEIGHT 1000
#define DAMA_CREDITS 64		/* ranks of terminals by their credit */
#define DAMA_RA_SLOTS 256
#define DAMA_RA_REPLICAS 5

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

struct dama_request {
	u64 made;			/* superframe */
	u64 rate_bps;
	u64 volume_bytes;
	bool renews;			/* the volume replaces what the NCC knows */
	bool has_rate;
};

struct dama_terminal {
	struct link_class classes[LINK_CLASSES];
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

struct link {
	struct dama_values values;
	u64 origin_ns;
	u64 superframe;			/* the next one */
	u64 up;				/* superframes that a request takes, */
	u64 down;			/* and that a grant takes */
	u64 busy_until;			/* superframe: until then somebody may be granted what it asked for */
	u64 cra_parts;			/* of all terminals */
	u32 wishes;			/* terminals that have one */
	u64 waiting;			/* packets in queues */
	struct link_list leaving;	/* in their order */
	u64 most_granted;		/* slots of one superframe */
	u64 random;			/* of random access */
	u16 ra_senders[DAMA_RA_SLOTS];
	u32 count;			/* of all terminals, real and simulated */
	struct dama_terminal *terminals;
	struct dama_request *requests;	/* DAMA_RING of each terminal */
	u32 *bins;			/* LINK_CLASSES * LINK_BINS of each real one */
	/* The caller's: */
	u64 *addresses;			/* of terminals */
	u32 known;			/* how many of them */
	u64 strangers;			/* packets of no terminal */
};

extern const struct link_name dama_value_names[], dama_share_names[];

/* What is wrong with the values, or NULL. */
const char *dama_check(const struct dama_values *values);

/* Gives a terminal a share of its own, from now on. Returns what is wrong with it, or NULL. After link_advance. */
const char *dama_give(struct link *link, u32 number, const struct dama_share *share);

/* A proxy wants a terminal to ask for this rate at least, from its next chance on; 0: no longer. After link_advance. */
void dama_wish(struct link *link, u32 number, u64 rate_bps);

#endif
