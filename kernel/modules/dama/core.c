// SPDX-License-Identifier: GPL-2.0
/*
 * A return link whose capacity is assigned on demand: see core.h.
 *
 * Time is cut into superframes. At the beginning of each, in this order:
 *
 *	simulated terminals get what they have to send;
 *	terminals whose turn it is ask for capacity;
 *	the NCC takes the requests that have come by then, and grants slots of the superframe that
 *	    begins when the grants have come back;
 *	terminals fill the slots of this superframe with what is in their queues now.
 */
#include "core.h"

#define US_PER_S 1000000ULL
#define OPENSAND_RBDC_BPS 16320000ULL	/* its largest request */
#define OPENSAND_VBDC_BYTES 510000ULL	/* 4080 kbit */
#define HEADER_BYTES 2			/* RLE, of each payload unit, */
#define START_BYTES 2			/* and of the first fragment beyond that */
#define LEAST_FRAGMENT_BYTES 1

static u64 minus(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

static u64 superframes(u64 us, u64 superframe_us)
{
	return (us + superframe_us - 1) / superframe_us;
}

/* splitmix64 */
static u64 drawn(u64 *state)
{
	u64 number = *state += 0x9E3779B97F4A7C15ULL;

	number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9ULL;
	number = (number ^ number >> 27) * 0x94D049BB133111EBULL;
	return number ^ number >> 31;
}

static u32 drawn_below(u64 *state, u64 limit)
{
	return (drawn(state) >> 32) * limit >> 32;
}

/* Slots in a superframe that carry a rate, in parts of a slot. */
static u64 slots_of(const struct dama_values *values, u64 rate_bps)
{
	return scaled(rate_bps * values->superframe_us, DAMA_SLOT, 8 * US_PER_S * values->burst_bytes);
}

static u64 rate_of(u64 bytes, u64 us)
{
	return scaled(bytes, 8 * US_PER_S, us);
}

static u64 bytes_in(u64 rate_bps, u64 us)
{
	return scaled(rate_bps, us, 8 * US_PER_S);
}

#define VALUE(name) { #name, offsetof(struct dama_values, name) }

const struct link_name dama_value_names[] = {
	VALUE(superframe_us), VALUE(delay_us), VALUE(processing_us), VALUE(request_period), VALUE(request_rtt),
	VALUE(rbdc_life), VALUE(vbdc_life), VALUE(slots), VALUE(burst_bytes), VALUE(label_bytes), VALUE(check_bytes),
	VALUE(algorithm), VALUE(over_request_pct), VALUE(cra_bps), VALUE(rbdc_bps), VALUE(vbdc_bytes), VALUE(fca_bps),
	VALUE(queue_bytes), VALUE(queue_packets), VALUE(random_access), VALUE(ra_frame), VALUE(ra_slots),
	VALUE(ra_replicas), VALUE(ra_backoff), VALUE(terminals), VALUE(simulated), VALUE(simulated_bps),
	VALUE(simulated_deviation_bps), VALUE(simulated_on_us), VALUE(simulated_off_us), VALUE(seed), { NULL, 0 },
};

#define SHARE(name) { #name, offsetof(struct dama_share, name) }

const struct link_name dama_share_names[] = {
	SHARE(cra_bps), SHARE(rbdc_bps), SHARE(vbdc_bytes), SHARE(weight), { NULL, 0 },
};

const char *dama_check(const struct dama_values *v)
{
	u64 up, down;

	if (v->superframe_us < 1000 || v->superframe_us > US_PER_S)
		return "superframe_us is from 1000 to 1000000";
	if (v->delay_us > 100 * US_PER_S || v->processing_us > 100 * US_PER_S)
		return "delay_us and processing_us are at most 100000000";
	up = superframes(v->delay_us, v->superframe_us);
	down = superframes(v->delay_us + v->processing_us, v->superframe_us);
	if (up >= DAMA_RING - 1 || down >= DAMA_RING - 1 || v->request_rtt >= DAMA_RING - 1)
		return "a request and a grant take less than 511 superframes each, and request_rtt is below that";
	if (!v->request_period || v->request_period > 100000)
		return "request_period is from 1 to 100000";
	if (!v->request_rtt || !v->rbdc_life || !v->vbdc_life)
		return "request_rtt, rbdc_life and vbdc_life are at least 1";
	if (v->rbdc_life > 1000000 || v->vbdc_life > 1000000)
		return "rbdc_life and vbdc_life are at most 1000000";
	if (!v->slots || v->slots >= DAMA_SLOT)
		return "slots is from 1 to 65535";
	if (v->burst_bytes < 16 || v->burst_bytes > 65535)
		return "burst_bytes is from 16 to 65535";
	if (v->label_bytes > 8 || v->check_bytes > 4)
		return "label_bytes is at most 8, check_bytes at most 4";
	if (v->algorithm >= DAMA_ALGORITHMS || v->random_access >= DAMA_RANDOM_ACCESSES)
		return "algorithm and random_access are from 0 to 2";
	if (v->over_request_pct < 100 || v->over_request_pct > 1000)
		return "over_request_pct is from 100 to 1000";
	if (max(max(v->cra_bps, v->rbdc_bps), v->fca_bps) > 1000 * US_PER_S)
		return "no rate is above 1000000000";
	if (v->vbdc_bytes > 1000 * US_PER_S)
		return "vbdc_bytes is at most 1000000000";
	if (!v->cra_bps && !v->rbdc_bps && !v->vbdc_bytes && !v->fca_bps)
		return "one of cra_bps, rbdc_bps, vbdc_bytes and fca_bps is above 0";
	if (!v->terminals || v->terminals > LINK_TERMINALS || v->simulated > LINK_TERMINALS ||
	    v->terminals + v->simulated > LINK_TERMINALS)
		return "there are 1 to 1024 terminals, at least one of them real";
	if (slots_of(v, v->cra_bps) * (v->terminals + v->simulated) > v->slots * DAMA_SLOT)
		return "cra_bps of all terminals is more than all slots";
	if (!v->queue_bytes || v->queue_bytes > 4000 * US_PER_S || !v->queue_packets || v->queue_packets > 1000000)
		return "queue_bytes is from 1 to 4000000000, queue_packets from 1 to 1000000";
	if (v->random_access &&
	    (!v->ra_frame || v->ra_frame > 1000 || !v->ra_slots || v->ra_slots > DAMA_RA_SLOTS || !v->ra_backoff ||
	     v->ra_backoff > 100000))
		return "ra_frame is from 1 to 1000, ra_slots from 1 to 256, ra_backoff from 1 to 100000";
	if (v->random_access == DAMA_CRDSA &&
	    (v->ra_replicas < 2 || v->ra_replicas > DAMA_RA_REPLICAS || v->ra_replicas > v->ra_slots))
		return "ra_replicas is from 2 to 5, and at most ra_slots";
	if (v->simulated && (v->simulated_bps > 1000 * US_PER_S || v->simulated_deviation_bps > 1000 * US_PER_S))
		return "no rate is above 1000000000";
	if (v->simulated_on_us > 3600 * US_PER_S || v->simulated_off_us > 3600 * US_PER_S)
		return "simulated_on_us and simulated_off_us are at most an hour";
	return NULL;
}

/* Lists */

/* `added` is in its order. Of packets that leave at the same time those of `list` come first. */
static void merge(struct link_list *list, const struct link_list *added)
{
	struct link_packet *one, *other = added->first, **at = &list->first;

	if (!other)
		return;
	if (!list->last || list->last->leaves_ns <= other->leaves_ns) {
		if (list->last)
			list->last->next = other;
		else
			list->first = other;
		list->last = added->last;
		return;
	}
	for (one = list->first; one && other; at = &(*at)->next) {
		if (one->leaves_ns <= other->leaves_ns) {
			*at = one;
			one = one->next;
		} else {
			*at = other;
			other = other->next;
		}
	}
	*at = one ? one : other;
	if (other)
		list->last = added->last;
}

/* Simulated terminals */

/* Three numbers' sum is bell-shaped enough; its standard deviation is that of the values. */
static u64 drawn_rate(const struct dama_values *values, u64 *random)
{
	u64 sum = 0, spread = 2 * values->simulated_deviation_bps;
	int i;

	/* Each is evenly spread over 2 deviations, so its variance is (2 d)^2 / 12: three have d^2. */
	for (i = 0; i < 3; i++)
		sum += spread ? (u64)drawn_below(random, spread + 1) : 0;
	return minus(values->simulated_bps + sum, 3 * spread / 2);
}

/* From 0 to twice the mean, at least one. */
static u64 drawn_time(const struct dama_values *values, u64 mean_ms, u64 *random)
{
	u64 most = 2000 * mean_ms / values->superframe_us;

	return 1 + drawn_below(random, most + 1);
}

static void simulate(struct link *link, struct dama_terminal *terminal, u64 now)
{
	const struct dama_values *values = &link->values;
	struct link_class *class = &terminal->classes[LINK_CLASSES - 1];
	u64 bytes, taken_bytes;

	if (now >= terminal->changes) {
		u64 on_ms = values->simulated_on_us / 1000, off_ms = values->simulated_off_us / 1000;

		/* It begins somewhere in its turns. */
		if (!off_ms)
			terminal->sends = true;
		else if (!terminal->changes)
			terminal->sends = drawn_below(&terminal->random, on_ms + off_ms) < on_ms;
		else
			terminal->sends = !terminal->sends;
		terminal->rate_bps = terminal->sends ? drawn_rate(values, &terminal->random) : 0;
		terminal->changes = now + drawn_time(values, terminal->sends ? on_ms : off_ms, &terminal->random);
	}
	terminal->remainder += terminal->rate_bps * values->superframe_us;
	bytes = terminal->remainder / (8 * US_PER_S);
	terminal->remainder %= 8 * US_PER_S;
	taken_bytes = min(bytes, minus(values->queue_bytes, class->queued.bytes));
	class->in.bytes += bytes;
	class->dropped.bytes += bytes - taken_bytes;
	class->queued.bytes += taken_bytes;
	terminal->left_bytes += taken_bytes;
	terminal->asked_for_bytes += taken_bytes;
}

/* Requests */

static struct dama_request *request_at(const struct dama_terminal *terminal, u32 number)
{
	return &terminal->requests[number % DAMA_RING];
}

static void forget_answered(const struct link *link, struct dama_terminal *terminal, u64 now)
{
	while (terminal->first_request != terminal->next_request &&
	       request_at(terminal, terminal->first_request)->made + link->values.request_rtt <= now)
		terminal->first_request++;
}

static void count_pending(const struct dama_terminal *terminal, u64 *rates_bps, u64 *volumes)
{
	u32 i;

	*rates_bps = *volumes = 0;
	for (i = terminal->first_request; i != terminal->next_request; i++) {
		*rates_bps += request_at(terminal, i)->rate_bps;
		*volumes += request_at(terminal, i)->volume_bytes;
	}
}

static u64 over(const struct dama_values *values, u64 number)
{
	return number * values->over_request_pct / 100;
}

/* bit/s for `arrived` bytes in `us` and for those in the queue, without what is on its way. */
static u64 wanted_rate(const struct dama_values *values, const struct dama_share *share, u64 arrived, u64 queued,
		       u64 us, u64 pending_bps)
{
	u64 rtt_us = values->request_rtt * values->superframe_us;
	u64 rate_bps = over(values, rate_of(arrived, us)), most_bps = share->rbdc_bps;

	switch (values->algorithm) {
	case DAMA_SNS3:
		queued = minus(queued, bytes_in(rate_bps, us) + bytes_in(pending_bps, us));
		return min(minus(rate_bps + rate_of(queued, us), share->cra_bps), minus(most_bps, share->cra_bps));
	case DAMA_OPENSAND:
		queued = minus(over(values, queued), bytes_in(pending_bps, us));
		return min(minus(rate_bps + rate_of(queued, rtt_us), share->cra_bps), min(most_bps, OPENSAND_RBDC_BPS));
	default:
		/* It has no history, so nothing is on its way; and what is below CRA becomes the largest number. */
		most_bps = min(most_bps, OPENSAND_RBDC_BPS);
		rate_bps += over(values, rate_of(queued, rtt_us));
		return rate_bps < share->cra_bps ? most_bps : min(rate_bps - share->cra_bps, most_bps);
	}
}

/* The most that a terminal may ask for. */
static u64 most_rate(const struct dama_values *values, const struct dama_share *share)
{
	return values->algorithm == DAMA_SNS3 ? minus(share->rbdc_bps, share->cra_bps) :
						min(share->rbdc_bps, OPENSAND_RBDC_BPS);
}

/* Bytes beyond those that rates will carry until the answer comes. */
static u64 wanted_volume(const struct dama_values *values, const struct dama_share *share, u64 arrived, u64 queued,
			 u64 us, u64 rate_bps, u64 pending_bytes)
{
	u64 rtt_us = values->request_rtt * values->superframe_us, most = share->vbdc_bytes, wanted;

	switch (values->algorithm) {
	case DAMA_SNS3:
		wanted = minus(over(values, pending_bytes ? arrived : queued), bytes_in(share->cra_bps, us));
		break;
	case DAMA_OPENSAND:
		wanted = minus(over(values, queued), pending_bytes + bytes_in(share->cra_bps, us));
		most = min(most, OPENSAND_VBDC_BYTES);
		break;
	default:
		return min(over(values, queued), min(most, OPENSAND_VBDC_BYTES));
	}
	if (share->rbdc_bps)
		wanted = minus(wanted, bytes_in(rate_bps, rtt_us));
	return min(wanted, most);
}

static void ask(struct link *link, struct dama_terminal *terminal, u64 now)
{
	const struct dama_values *values = &link->values;
	const struct dama_share *share = &terminal->share;
	u64 since = now > values->request_period ? max(terminal->last_chance, now - values->request_period) :
						   terminal->last_chance;
	u64 us = max(now - since, 1ULL) * values->superframe_us;
	u64 arrived = terminal->asked_for_bytes, queued = terminal->left_bytes;
	u64 pending_bps, pending_bytes, rate_bps = 0, volume = 0;
	struct dama_request *request;

	terminal->asked_for_bytes = 0;
	terminal->last_chance = now;
	if (!arrived && !queued && !terminal->wish_bps)
		return;
	forget_answered(link, terminal, now);
	count_pending(terminal, &pending_bps, &pending_bytes);
	if (share->rbdc_bps && (arrived || queued))
		rate_bps = wanted_rate(values, share, arrived, queued, us, pending_bps);
	if (share->rbdc_bps && terminal->wish_bps)
		rate_bps = max(rate_bps, min(minus(terminal->wish_bps, share->cra_bps), most_rate(values, share)));
	if (share->vbdc_bytes)
		volume = wanted_volume(values, share, arrived, queued, us, rate_bps, pending_bytes);
	if (!rate_bps && !volume)
		return;
	request = request_at(terminal, terminal->next_request++);
	request->made = now;
	request->rate_bps = rate_bps;
	request->volume_bytes = volume;
	request->has_rate = share->rbdc_bps;
	request->renews = values->algorithm == DAMA_OPENSAND_8_2 ||
			  (values->algorithm == DAMA_SNS3 && !pending_bytes);
	terminal->last_request = now + 1;
	terminal->request_count++;
	link->busy_until = max(link->busy_until, now + link->up + link->down + max(values->rbdc_life, values->vbdc_life));
}

static bool wants_random_access(const struct link *link, const struct dama_terminal *terminal, u64 now)
{
	return terminal->left_bytes && now >= terminal->ra_not_before &&
	       (!terminal->last_request || now - (terminal->last_request - 1) > link->up + link->down);
}

static void place(struct link *link, struct dama_terminal *terminal, u32 replicas)
{
	u32 i, j;

	for (i = 0; i < replicas; i++) {
		do {
			terminal->ra_slots[i] = drawn_below(&link->random, link->values.ra_slots);
			for (j = 0; j < i && terminal->ra_slots[j] != terminal->ra_slots[i]; j++)
				;
		} while (j < i);
		link->ra_senders[terminal->ra_slots[i]]++;
	}
}

static bool is_alone(const struct link *link, const struct dama_terminal *terminal, u32 replicas)
{
	u32 i;

	for (i = 0; i < replicas; i++)
		if (link->ra_senders[terminal->ra_slots[i]] == 1)
			return true;
	return false;
}

/*
 * A frame of random access. Of CRDSA a terminal that is alone in one of its slots is taken out of its others, which may
 * leave another one alone there. ALOHA has one slot, and nothing is taken out.
 */
static void access_at_random(struct link *link, u64 now)
{
	const struct dama_values *values = &link->values;
	u32 replicas = values->random_access == DAMA_CRDSA ? values->ra_replicas : 1, i, j;
	bool again = true;

	memset(link->ra_senders, 0, sizeof(link->ra_senders));
	for (i = 0; i < link->count; i++) {
		struct dama_terminal *terminal = &link->terminals[i];

		terminal->ra_sends = wants_random_access(link, terminal, now);
		if (terminal->ra_sends)
			place(link, terminal, replicas);
	}
	while (again) {
		again = false;
		for (i = 0; i < link->count; i++) {
			struct dama_terminal *terminal = &link->terminals[i];

			if (!terminal->ra_sends || !is_alone(link, terminal, replicas))
				continue;
			terminal->ra_sends = false;
			ask(link, terminal, now);
			for (j = 0; j < replicas && values->random_access == DAMA_CRDSA; j++)
				link->ra_senders[terminal->ra_slots[j]]--;
			again = values->random_access == DAMA_CRDSA;
		}
	}
	for (i = 0; i < link->count; i++) {
		struct dama_terminal *terminal = &link->terminals[i];

		if (terminal->ra_sends) {
			terminal->collisions++;
			terminal->ra_not_before = now + link->up + link->down +
						  drawn_below(&link->random, values->ra_backoff + 1);
		}
	}
}

/* The NCC */

static void take_requests(struct link *link, struct dama_terminal *terminal, u64 now)
{
	const struct dama_values *values = &link->values;

	for (; terminal->first_travelling != terminal->next_request; terminal->first_travelling++) {
		const struct dama_request *request = request_at(terminal, terminal->first_travelling);

		if (request->made + link->up > now)
			break;
		if (request->has_rate) {
			terminal->rbdc_bps = request->rate_bps;
			terminal->rbdc_until = now + values->rbdc_life;
			/* Whole slots: a terminal that asks for less than one would wait for it. */
			terminal->rbdc_want = (slots_of(values, request->rate_bps) + DAMA_SLOT - 1) / DAMA_SLOT * DAMA_SLOT;
			terminal->rbdc_want = min(terminal->rbdc_want, values->slots * DAMA_SLOT);
		}
		if (request->volume_bytes) {
			terminal->vbdc_bytes = min(request->volume_bytes + (request->renews ? 0 : terminal->vbdc_bytes),
						   terminal->share.vbdc_bytes);
			terminal->vbdc_until = now + values->vbdc_life;
		}
	}
	if (now >= terminal->rbdc_until)
		terminal->rbdc_bps = terminal->rbdc_want = terminal->credit = 0;
	if (now >= terminal->vbdc_until)
		terminal->vbdc_bytes = 0;
}

/* Whole slots of a constant rate in a superframe. `phase` parts the terminals' ones. */
static u64 constant_slots(u64 parts, u64 phase, u64 superframe)
{
	return (((superframe + 1) * parts + phase) >> 16) - ((superframe * parts + phase) >> 16);
}

static void grant(struct link *link, u32 i, u64 superframe, u64 slots, u64 *left)
{
	link->terminals[i].grants[superframe % DAMA_RING] += slots;
	*left -= slots;
}

static void grant_constant(struct link *link, bool is_free, u64 superframe, u64 *left)
{
	u32 i, first = superframe % link->count;

	if (!(is_free ? link->values.fca_bps : link->cra_parts))
		return;
	for (i = 0; i < link->count && *left; i++) {
		u32 at = (first + i) % link->count;
		u64 parts = is_free ? link->terminals[at].fca_parts : link->terminals[at].cra_parts;
		u64 slots = constant_slots(parts, DAMA_SLOT * at / link->count, superframe);

		grant(link, at, superframe, min(slots, *left), left);
	}
}

/* Of a terminal whose credit is a slot or more: 0 to DAMA_CREDITS - 1. */
static u32 rank_of(const struct dama_terminal *terminal)
{
	return min((terminal->credit - DAMA_SLOT) * DAMA_CREDITS / DAMA_SLOT, (u64)DAMA_CREDITS - 1);
}

/* A slot for each terminal whose credit is one, largest credits first. */
static void grant_credits(struct link *link, u64 superframe, u64 *left)
{
	u32 counts[DAMA_CREDITS] = { 0 }, least = DAMA_CREDITS, i;
	u64 some = *left;

	for (i = 0; i < link->count; i++)
		if (link->terminals[i].credit >= DAMA_SLOT)
			counts[rank_of(&link->terminals[i])]++;
	/* All of the ranks above `least` get one, and `some` of `least` itself. */
	while (least && some >= counts[least - 1])
		some -= counts[--least];
	for (i = 0; i < link->count && *left; i++) {
		struct dama_terminal *terminal = &link->terminals[(superframe + i) % link->count];
		u32 rank;

		if (terminal->credit < DAMA_SLOT)
			continue;
		rank = rank_of(terminal) + 1;
		if (rank < least || (rank == least && !some))
			continue;
		some -= rank == least;
		terminal->credit -= DAMA_SLOT;
		grant(link, terminal - link->terminals, superframe, 1, left);
	}
}

/*
 * Parts the slots that are left among requests for more than that, in proportion to what each wants times its weight.
 * Whoever would get more than it wants gets that, and the others part the rest. Requests are whole slots, so
 * all products are below 2^62.
 */
static void part_rates(struct link *link, u64 left)
{
	bool again = true;
	u64 weighted;
	u32 i;

	for (i = 0; i < link->count; i++)
		link->terminals[i].granted_parts = NONE;
	while (again) {
		u64 available = left;

		again = false;
		weighted = 0;
		for (i = 0; i < link->count; i++)
			if (link->terminals[i].granted_parts == NONE)
				weighted += link->terminals[i].rbdc_want / DAMA_SLOT * link->terminals[i].share.weight;
		for (i = 0; i < link->count && weighted; i++) {
			struct dama_terminal *terminal = &link->terminals[i];

			if (terminal->granted_parts != NONE || !terminal->rbdc_want ||
			    terminal->share.weight * available < weighted)
				continue;
			terminal->granted_parts = terminal->rbdc_want;
			left -= terminal->rbdc_want / DAMA_SLOT;
			again = true;
		}
	}
	for (i = 0; i < link->count; i++) {
		struct dama_terminal *terminal = &link->terminals[i];

		if (terminal->granted_parts == NONE)
			terminal->granted_parts = !weighted ? 0 :
				terminal->rbdc_want / DAMA_SLOT * terminal->share.weight * left * DAMA_SLOT / weighted;
	}
}

static void grant_rates(struct link *link, u64 superframe, u64 *left)
{
	u64 wanted = 0, available = *left * DAMA_SLOT;
	bool parted;
	u32 i;

	for (i = 0; i < link->count; i++)
		wanted += link->terminals[i].rbdc_want;
	parted = wanted > available;
	if (parted)
		part_rates(link, *left);
	for (i = 0; i < link->count && wanted; i++) {
		struct dama_terminal *terminal = &link->terminals[i];
		u64 parts = parted ? terminal->granted_parts : terminal->rbdc_want;

		terminal->credit = min(terminal->credit + parts % DAMA_SLOT, 2 * DAMA_SLOT);
		grant(link, i, superframe, parts / DAMA_SLOT, left);
	}
	if (wanted)
		grant_credits(link, superframe, left);
}

static void grant_volumes(struct link *link, u64 superframe, u64 *left)
{
	while (*left) {
		struct dama_terminal *most = NULL;
		u64 slots;
		u32 i;

		for (i = 0; i < link->count; i++) {
			struct dama_terminal *terminal = &link->terminals[i];

			if (terminal->vbdc_bytes && (!most || terminal->vbdc_bytes > most->vbdc_bytes))
				most = terminal;
		}
		if (!most)
			return;
		slots = superframes(most->vbdc_bytes, link->values.burst_bytes);
		slots = min(slots, *left);
		most->vbdc_bytes = minus(most->vbdc_bytes, slots * link->values.burst_bytes);
		grant(link, most - link->terminals, superframe, slots, left);
	}
}

static void grant_all(struct link *link, u64 now)
{
	u64 superframe = now + link->down, left = link->values.slots;
	u32 i;

	for (i = 0; i < link->count; i++) {
		take_requests(link, &link->terminals[i], now);
		link->terminals[i].grants[superframe % DAMA_RING] = 0;
	}
	grant_constant(link, false, superframe, &left);
	grant_rates(link, superframe, &left);
	grant_volumes(link, superframe, &left);
	grant_constant(link, true, superframe, &left);
	link->most_granted = max(link->most_granted, link->values.slots - left);
}

/* Bursts */

static struct link_class *first_waiting(struct dama_terminal *terminal)
{
	u32 i;

	for (i = 0; i < LINK_CLASSES; i++)
		if (terminal->classes[i].waiting.first)
			return &terminal->classes[i];
	return NULL;
}

/* Fills a burst by priority. A packet that does not fit is cut, and goes on in the next burst. */
static void fill(struct link *link, struct dama_terminal *terminal, u64 leaves_ns, struct link_list *leaving)
{
	u32 space = link->values.burst_bytes, label = link->values.label_bytes, check = link->values.check_bytes;
	struct link_class *class;

	while ((class = first_waiting(terminal))) {
		struct link_packet *packet = class->waiting.first;
		bool begins = packet->left == packet->bytes;
		u32 header, bytes;

		/* Whole, or its end. */
		header = HEADER_BYTES + (begins ? label : check);
		bytes = packet->left;
		if (bytes + header > space) {
			header = HEADER_BYTES + (begins ? START_BYTES + label : 0);
			if (space < header + LEAST_FRAGMENT_BYTES)
				break;
			/* Something is left for the end, which has the check. */
			bytes = min(space - header, packet->left - 1);
			if (!bytes)
				break;
		}
		space -= header + bytes;
		packet->left -= bytes;
		terminal->left_bytes -= bytes;
		terminal->used_bytes += bytes;
		terminal->header_bytes += header;
		if (packet->left)
			continue;
		depart(class, packet, leaves_ns);
		link->waiting--;
		append(leaving, taken(&class->waiting));
	}
	terminal->used_slots++;
	terminal->padded_bytes += space;
}

static void fill_simulated(struct link *link, struct dama_terminal *terminal, u64 slots)
{
	u64 each = link->values.burst_bytes - HEADER_BYTES;
	u64 bytes = min(slots * each, terminal->left_bytes), used = superframes(bytes, each);

	terminal->used_slots += used;
	terminal->used_bytes += bytes;
	terminal->header_bytes += HEADER_BYTES * used;
	terminal->padded_bytes += used * each - bytes;
	terminal->left_bytes -= bytes;
	terminal->classes[LINK_CLASSES - 1].queued.bytes -= bytes;
	terminal->classes[LINK_CLASSES - 1].out.bytes += bytes;
}

/* A terminal's slots are evenly spread over the superframe. */
static void send_bursts(struct link *link, u32 number, u64 now)
{
	struct dama_terminal *terminal = &link->terminals[number];
	u64 slots = terminal->grants[now % DAMA_RING], i;
	u64 begins_ns = link->origin_ns + now * link->values.superframe_us * 1000;
	struct link_list leaving = { NULL, NULL };

	terminal->granted_slots += slots;
	if (number >= link->values.terminals) {
		fill_simulated(link, terminal, slots);
		return;
	}
	for (i = 0; i < slots && terminal->left_bytes; i++)
		fill(link, terminal, begins_ns + i * link->values.superframe_us * 1000 / slots, &leaving);
	merge(&link->leaving, &leaving);
}

/* Grants that were under way when nobody had asked for any. */
static void fill_pipeline(struct link *link, u64 from)
{
	u64 superframe;
	u32 i;

	for (superframe = from; superframe < from + link->down; superframe++) {
		u64 left = link->values.slots;

		for (i = 0; i < link->count; i++)
			link->terminals[i].grants[superframe % DAMA_RING] = 0;
		grant_constant(link, false, superframe, &left);
		grant_constant(link, true, superframe, &left);
	}
}

static void take_share(struct link *link, struct dama_terminal *terminal, const struct dama_share *share)
{
	link->cra_parts -= terminal->cra_parts;
	terminal->share = *share;
	terminal->cra_parts = slots_of(&link->values, share->cra_bps);
	link->cra_parts += terminal->cra_parts;
	terminal->fca_parts = slots_of(&link->values, link->values.fca_bps) * share->weight;
}

void link_start(struct link *link, u64 now_ns)
{
	const struct dama_values *values = &link->values;
	struct dama_terminal *terminals = link->terminals;
	u32 i, c;

	link->count = values->terminals + values->simulated;
	link->origin_ns = now_ns;
	link->up = superframes(values->delay_us, values->superframe_us);
	link->down = superframes(values->delay_us + values->processing_us, values->superframe_us);
	link->random = values->seed;
	for (i = 0; i < link->count; i++) {
		take_share(link, &terminals[i], &(const struct dama_share){
			values->cra_bps, values->rbdc_bps, values->vbdc_bytes, 1 });
		terminals[i].requests = link->requests + (size_t)i * DAMA_RING;
		terminals[i].random = values->seed + 0x632BE59BD9B4E019ULL * (i + 1);
		for (c = 0; c < LINK_CLASSES && i < values->terminals; c++)
			terminals[i].classes[c].bins = link->bins + ((size_t)i * LINK_CLASSES + c) * LINK_BINS;
	}
	fill_pipeline(link, 0);
}

const char *dama_give(struct link *link, u32 number, const struct dama_share *share)
{
	if (number >= link->values.terminals)
		return "there are fewer terminals";
	if (max(share->cra_bps, share->rbdc_bps) > 1000 * US_PER_S || share->vbdc_bytes > 1000 * US_PER_S)
		return "no rate and no volume is above 1000000000";
	if (!share->weight || share->weight > DAMA_MOST_WEIGHT)
		return "weight is from 1 to 1000";
	if (link->cra_parts - link->terminals[number].cra_parts + slots_of(&link->values, share->cra_bps) >
	    link->values.slots * DAMA_SLOT)
		return "cra_bps of all terminals is more than all slots";
	take_share(link, &link->terminals[number], share);
	/* No request has reached the NCC yet, so that the grants under way are those of constant rates. */
	if (link->superframe <= link->up)
		fill_pipeline(link, link->superframe);
	return NULL;
}

void dama_wish(struct link *link, u32 number, u64 rate_bps)
{
	struct dama_terminal *terminal = &link->terminals[number];

	link->wishes += (rate_bps != 0) - (terminal->wish_bps != 0);
	terminal->wish_bps = rate_bps;
}

static void tick(struct link *link)
{
	u64 now = link->superframe++;
	u32 i;

	for (i = link->values.terminals; i < link->count; i++)
		simulate(link, &link->terminals[i], now);
	for (i = 0; i < link->count; i++)
		if (now % link->values.request_period == i % link->values.request_period)
			ask(link, &link->terminals[i], now);
	if (link->values.random_access && now % link->values.ra_frame == 0)
		access_at_random(link, now);
	grant_all(link, now);
	for (i = 0; i < link->count; i++)
		send_bursts(link, i, now);
}

/*
 * While nothing waits and nothing is asked for or granted but constant rates, superframes leave no trace but in the
 * count of slots: all but those that fill the grants under way are passed over.
 */
static void rest(struct link *link, u64 until)
{
	u64 quiet_from = link->busy_until + link->down + 1, back, skipped;
	u32 i;

	if (link->values.simulated || link->waiting || link->wishes || link->superframe < quiet_from)
		return;
	back = link->down + link->values.request_period + 1;
	if (until <= link->superframe + back)
		return;
	skipped = until - back - link->superframe;
	for (i = 0; i < link->count; i++) {
		u64 parts = link->terminals[i].cra_parts, phase = DAMA_SLOT * i / link->count;
		u64 from = link->superframe, to = link->superframe + skipped;

		/* Of free capacity, which is whoever's has something to send, nothing is counted here. */
		link->terminals[i].granted_slots += ((to * parts + phase) >> 16) - ((from * parts + phase) >> 16);
		link->terminals[i].asked_for_bytes = 0;
	}
	link->superframe += skipped;
	fill_pipeline(link, link->superframe);
}

void link_advance(struct link *link, u64 now_ns, bool now)
{
	u64 until = now_ns < link->origin_ns ?
		    0 : (now_ns - link->origin_ns) / (link->values.superframe_us * 1000) + 1;

	(void)now;	/* a superframe does not wait for packets */
	while (link->superframe < until) {
		rest(link, until);
		tick(link);
	}
}

bool link_arrive(struct link *link, struct link_packet *packet, u64 now_ns)
{
	struct dama_terminal *terminal = &link->terminals[packet->terminal];
	struct link_class *class = &terminal->classes[packet->class];

	if (!takes(class, packet, link->values.queue_bytes, link->values.queue_packets, now_ns))
		return false;
	terminal->left_bytes += packet->bytes;
	terminal->asked_for_bytes += packet->bytes;
	link->waiting++;
	append(&class->waiting, packet);
	return true;
}

u64 link_next_ns(const struct link *link)
{
	u64 tick_ns = link->origin_ns + link->superframe * link->values.superframe_us * 1000;
	u64 leaves_ns = link->leaving.first ? link->leaving.first->leaves_ns : NONE;

	return link->waiting ? min(leaves_ns, tick_ns) : leaves_ns;
}

struct link_packet *link_take(struct link *link)
{
	struct link_packet *packet = taken(&link->leaving);
	u32 i, c;

	for (i = 0; i < link->values.terminals && !packet; i++) {
		for (c = 0; c < LINK_CLASSES && !packet; c++) {
			struct link_class *class = &link->terminals[i].classes[c];

			packet = taken(&class->waiting);
			if (packet) {
				link->waiting--;
				link->terminals[i].left_bytes -= packet->left;
				drop(class, packet);
			}
		}
	}
	return packet;
}
