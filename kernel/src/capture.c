// SPDX-License-Identifier: GPL-2.0
/*
 * capture=<fd>: a digest of the packets that leave each interface of any namespace,
 * as pcapng on a descriptor of the host.
 *
 * A packet is hashed where it lies (capture_digest.h). At the end each interface's
 * statistics block has its digest and name as a comment, and the time of its last
 * packet. A program in the guest could do the same, but every packet would then cost
 * system calls, and would have to be moved through the guest's own scheduler.
 *
 * capture_packets: all packets before them, in the order of time. Without it one of
 * LIFE is sent, without its bytes: the guest goes on.
 *
 * What is taken: packets as they leave an interface, after its queue, so that
 * one lost in netem is not there. A veth's far end sees the same packet, so its
 * arrival is not taken again; a tunnel's (wg, tun) is, because what arrives there
 * left nowhere else. ifb is left out: it is a queue and not an interface that a
 * packet crosses. Names are "<alias of the namespace's lo>/<interface>".
 *
 * capture_keys: the keys of WireGuard's handshakes too, each in a block of its own
 * in the form of Wireshark's wg.keylog_file. The host takes them out of the stream,
 * whose other blocks are the same with and without them.
 */
#include <asm/capture.h>
#include <linux/base64.h>
#include <linux/if_arp.h>
#include <linux/init.h>
#include <linux/netdevice.h>
#include <linux/reboot.h>
#include <linux/skbuff.h>
#include <net/checksum.h>
#include <net/net_namespace.h>
#include <net/rtnetlink.h>
#include "capture_digest.h"
#include "capture_user.h"

#define BLOCK_MAX	(1 << 17)	/* the largest packet, 64 KiB, and its header */
#define PART_SIZE	(1 << 18)	/* what is sent at once, at least */
#define PIPE_SIZE	(1 << 20)	/* the largest pipe that pages are sent through */
/*
 * The pipe has the pages themselves until the host has read them: the last PIPE_SIZE
 * that were sent. The rest is room for the next part and for what is left at the end.
 */
#define MEMORY_SIZE	(PIPE_SIZE + 2 * (PART_SIZE + BLOCK_MAX))
#define LIFE		(1 << 16)

#define LINKTYPE_ETHERNET	1
#define LINKTYPE_RAW		101

/* pcapng (draft-ietf-opsawg-pcapng), native byte order, nanoseconds */
#define SECTION_HEADER		0x0a0d0d0a
#define INTERFACE_DESCRIPTION	1
#define INTERFACE_STATISTICS	5
#define ENHANCED_PACKET		6
#define DECRYPTION_SECRETS	10
#define WIREGUARD_KEY_LOG	0x57474b4c
#define OPTION_COMMENT		1
#define OPTION_IF_NAME		2
#define OPTION_IF_TSRESOL	9

#define KEY_SIZE		32	/* of X25519 and of a preshared key */

/* What is known of a device while it is in a namespace; it outlives both. */
struct capture_interface {
	struct capture_interface *before;
	const struct net *net;
	u32 number;
	u64 last_ns;
	struct digest digest;
	char name[IFALIASZ + IFNAMSIZ + 1];
};

static int capture_fd = -1;
static bool with_packets, with_keys;
static bool as_pages;
static u8 *buffer;
static size_t used, sent;
static DEFINE_SPINLOCK(lock);
static struct capture_interface *last_interface;

static void flush(void)
{
	while (sent < used) {
		int n = capture_write(capture_fd, buffer + sent, used - sent, as_pages);

		if (n == -EINTR)
			continue;
		if (n < 0 && as_pages) {	/* the host may not let us */
			as_pages = false;
			continue;
		}
		if (n <= 0)
			panic("capture: the host no longer reads it (error %d)", n);
		sent += n;
	}
	if (used > MEMORY_SIZE - PART_SIZE - BLOCK_MAX) {
		used = 0;
		sent = 0;
	}
}

static void put(const void *data, size_t len)
{
	memcpy(buffer + used, data, len);
	used += len;
}

static void put32(u32 value)
{
	put(&value, sizeof(value));
}

static void pad(void)
{
	while (used % 4)
		buffer[used++] = 0;
}

/* A block is its type, its length, the body and the length once more. */
static size_t block_start(u32 type)
{
	size_t start;

	if (used - sent >= PART_SIZE)
		flush();
	start = used;
	put32(type);
	put32(0);
	return start;
}

static void block_end(size_t start)
{
	u32 len;

	pad();
	len = used + sizeof(len) - start;
	put32(len);
	memcpy(buffer + start + sizeof(u32), &len, sizeof(len));
}

static void put_option(u16 code, const void *value, u16 len)
{
	put(&code, sizeof(code));
	put(&len, sizeof(len));
	put(value, len);
	pad();
}

static void put_section_header(void)
{
	size_t block = block_start(SECTION_HEADER);
	const s64 length_unknown = -1;

	put32(0x1a2b3c4d);		/* byte order */
	put32(1);			/* version 1.0 */
	put(&length_unknown, sizeof(length_unknown));
	block_end(block);
}

static void put_interface(const struct capture_interface *interface, u16 linktype)
{
	size_t block = block_start(INTERFACE_DESCRIPTION);
	const u8 nanoseconds = 9;
	const u16 reserved = 0;

	put(&linktype, sizeof(linktype));
	put(&reserved, sizeof(reserved));
	put32(0);			/* no limit on a packet's length */
	put_option(OPTION_IF_NAME, interface->name, strlen(interface->name));
	put_option(OPTION_IF_TSRESOL, &nanoseconds, 1);
	put32(0);			/* end of options */
	block_end(block);
}

static void put_statistics(const struct capture_interface *interface)
{
	size_t block = block_start(INTERFACE_STATISTICS);
	u128 digest = digest_value(&interface->digest);
	char comment[2 * sizeof(digest) + 1 + sizeof(interface->name)];
	int len;

	len = snprintf(comment, sizeof(comment), "%016llx%016llx %s",
		       (u64)(digest >> 64), (u64)digest, interface->name);
	put32(interface->number);
	put32(interface->last_ns >> 32);
	put32(interface->last_ns);
	put_option(OPTION_COMMENT, comment, len);
	put32(0);			/* end of options */
	block_end(block);
}

static struct capture_interface *interface_of(struct net_device *dev, bool ethernet)
{
	struct capture_interface *interface = dev->capture;
	const struct net *net = dev_net(dev);
	char host[IFALIASZ] = "";

	if (interface && interface->net == net)
		return interface;
	interface = kzalloc_obj(*interface, GFP_ATOMIC);
	if (!interface)
		panic("capture: no memory for an interface");
	dev_get_alias(net->loopback_dev, host, sizeof(host));
	snprintf(interface->name, sizeof(interface->name), "%s/%s", host, dev->name);
	interface->net = net;
	interface->number = last_interface ? last_interface->number + 1 : 0;
	interface->before = last_interface;
	last_interface = interface;
	dev->capture = interface;
	put_interface(interface, ethernet ? LINKTYPE_ETHERNET : LINKTYPE_RAW);
	return interface;
}

static bool is_kind(const struct net_device *dev, const char *kind)
{
	return dev->rtnl_link_ops && !strcmp(dev->rtnl_link_ops->kind, kind);
}

/* The first link's veth completes it after this; a tunnel before it encrypts. */
static void complete_checksum(const struct sk_buff *skb, u8 *packet)
{
	int start = skb_checksum_start_offset(skb);
	__wsum sum = csum_partial(packet + start, skb->len - start, 0);
	__sum16 folded = csum_fold(sum) ?: CSUM_MANGLED_0;

	memcpy(packet + start + skb->csum_offset, &folded, sizeof(folded));
}

static void copy_packet(const struct sk_buff *skb, u8 *packet)
{
	if (skb_copy_bits(skb, 0, packet, skb->len))
		panic("capture: a packet of %u bytes could not be read", skb->len);
	if (skb->ip_summed == CHECKSUM_PARTIAL && !skb_is_gso(skb))
		complete_checksum(skb, packet);
}

static void hash_packet(struct digest *digest, struct sk_buff *skb)
{
	unsigned int done = 0, part;
	struct skb_seq_state state;
	const u8 *data;

	/* What is in the packet is not what will be sent. */
	if (skb->ip_summed == CHECKSUM_PARTIAL) {
		copy_packet(skb, buffer + used);
		digest_add(digest, buffer + used, skb->len);
		return;
	}
	skb_prepare_seq_read(skb, 0, skb->len, &state);
	while ((part = skb_seq_read(done, &data, &state))) {
		digest_add(digest, data, part);
		done += part;
	}
}

/* The block up to the bytes, of which `captured` follow. */
static size_t packet_start(const struct capture_interface *interface, u32 len, u32 captured)
{
	size_t block = block_start(ENHANCED_PACKET);

	put32(interface->number);
	put32(interface->last_ns >> 32);
	put32(interface->last_ns);
	put32(captured);
	put32(len);
	return block;
}

static void capture_packet(struct sk_buff *skb, struct net_device *dev, bool ethernet)
{
	u64 now = ktime_get_real_fast_ns();
	struct capture_interface *interface;
	static unsigned int unsent;
	size_t block;

	spin_lock_bh(&lock);
	interface = interface_of(dev, ethernet);
	interface->last_ns = now;
	digest_begin_record(&interface->digest, now, skb->len);
	if (with_packets) {
		block = packet_start(interface, skb->len, skb->len);
		copy_packet(skb, buffer + used);
		digest_add(&interface->digest, buffer + used, skb->len);
		used += skb->len;
		block_end(block);
	} else {
		hash_packet(&interface->digest, skb);
		if (++unsent % LIFE == 0) {
			block_end(packet_start(interface, skb->len, 0));
			flush();
		}
	}
	digest_end_record(&interface->digest);
	spin_unlock_bh(&lock);
}

void capture_leaving(struct sk_buff *skb, struct net_device *dev)
{
	if (buffer && !is_kind(dev, "ifb"))
		capture_packet(skb, dev, dev->type != ARPHRD_NONE);
}

void capture_arriving(struct sk_buff *skb)
{
	if (buffer && skb->dev->type == ARPHRD_NONE)
		capture_packet(skb, skb->dev, false);
}

static void put_key(const char *name, const u8 *key)
{
	put(name, strlen(name));
	put(" = ", 3);
	used += base64_encode(key, KEY_SIZE, buffer + used, true, BASE64_STD);
	put("\n", 1);
}

void capture_wireguard_keys(const u8 *local_static, const u8 *remote_static,
			    const u8 *local_ephemeral, const u8 *preshared)
{
	size_t block, text;
	u32 len;

	if (!with_keys || capture_fd < 0)
		return;
	spin_lock_bh(&lock);
	block = block_start(DECRYPTION_SECRETS);
	put32(WIREGUARD_KEY_LOG);
	put32(0);
	text = used;
	put_key("LOCAL_STATIC_PRIVATE_KEY", local_static);
	put_key("REMOTE_STATIC_PUBLIC_KEY", remote_static);
	put_key("LOCAL_EPHEMERAL_PRIVATE_KEY", local_ephemeral);
	put_key("PRESHARED_KEY", preshared);
	len = used - text;
	memcpy(buffer + text - sizeof(len), &len, sizeof(len));
	block_end(block);
	spin_unlock_bh(&lock);
}

static int capture_reboot(struct notifier_block *nb, unsigned long action, void *data)
{
	const struct capture_interface *interface;

	spin_lock_bh(&lock);
	for (interface = last_interface; interface; interface = interface->before)
		put_statistics(interface);
	flush();
	spin_unlock_bh(&lock);
	return NOTIFY_DONE;
}

static struct notifier_block capture_reboot_notifier = {
	.notifier_call = capture_reboot,
};

static int __init capture_setup(char *str)
{
	return kstrtoint(str, 10, &capture_fd) == 0;
}
__setup("capture=", capture_setup);

static int __init capture_packets_setup(char *str)
{
	with_packets = true;
	return 1;
}
__setup("capture_packets", capture_packets_setup);

static int __init capture_keys_setup(char *str)
{
	with_keys = true;
	return 1;
}
__setup("capture_keys", capture_keys_setup);

static int __init capture_init(void)
{
	int pipe_size = capture_pipe_size(capture_fd);

	if (capture_fd < 0)
		return 0;
	digest_make_keys();
	as_pages = with_packets && pipe_size > 0 && pipe_size <= PIPE_SIZE;
	buffer = capture_memory(MEMORY_SIZE);
	if (!buffer)
		panic("capture: the host has no memory for it");
	put_section_header();
	return register_reboot_notifier(&capture_reboot_notifier);
}
subsys_initcall(capture_init);
