// SPDX-License-Identifier: GPL-2.0
/*
 * capture=<fd>: every packet that leaves on any interface of any namespace, as
 * one pcapng stream on a file descriptor of the host.
 *
 * The host hashes the stream (the run's capture_hash) or keeps it (--pcap). A
 * program in the guest could do the same, but every packet would then cost
 * system calls, and would have to be moved through the guest's own scheduler.
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
#include <net/netns/generic.h>
#include <net/rtnetlink.h>
#include "capture_user.h"

#define BLOCK_MAX	(1 << 17)	/* the largest packet, 64 KiB, and its header */
#define PART_SIZE	(1 << 18)	/* what is sent at once, at least */
#define PIPE_SIZE	(1 << 20)	/* the largest pipe that pages are sent through */
/*
 * The pipe has the pages themselves until the host has read them: the last PIPE_SIZE
 * that were sent. The rest is room for the next part and for what is left at the end.
 */
#define MEMORY_SIZE	(PIPE_SIZE + 2 * (PART_SIZE + BLOCK_MAX))
#define INTERFACES_MAX	256

#define LINKTYPE_ETHERNET	1
#define LINKTYPE_RAW		101

/* pcapng (draft-ietf-opsawg-pcapng), native byte order, nanoseconds */
#define SECTION_HEADER		0x0a0d0d0a
#define INTERFACE_DESCRIPTION	1
#define ENHANCED_PACKET		6
#define DECRYPTION_SECRETS	10
#define WIREGUARD_KEY_LOG	0x57474b4c
#define OPTION_IF_NAME		2
#define OPTION_IF_TSRESOL	9

#define KEY_SIZE		32	/* of X25519 and of a preshared key */

static int capture_fd = -1;
static bool with_keys;
static bool as_pages;
static u8 *buffer;
static size_t used, sent;
static DEFINE_SPINLOCK(lock);
static struct { struct net *net; int ifindex; } interfaces[INTERFACES_MAX];
static unsigned int interface_count;
static unsigned int capture_net_id;

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

static void put_interface(const struct net_device *dev, u16 linktype)
{
	size_t block = block_start(INTERFACE_DESCRIPTION);
	char host[IFALIASZ] = "", name[IFALIASZ + IFNAMSIZ + 1];
	const u8 nanoseconds = 9;
	const u16 reserved = 0;
	int len;

	dev_get_alias(dev_net(dev)->loopback_dev, host, sizeof(host));
	len = snprintf(name, sizeof(name), "%s/%s", host, dev->name);
	put(&linktype, sizeof(linktype));
	put(&reserved, sizeof(reserved));
	put32(0);			/* no limit on a packet's length */
	put_option(OPTION_IF_NAME, name, len);
	put_option(OPTION_IF_TSRESOL, &nanoseconds, 1);
	put32(0);			/* end of options */
	block_end(block);
}

static int interface_number(const struct net_device *dev, u16 linktype)
{
	struct net *net = dev_net(dev);
	unsigned int i;

	for (i = 0; i < interface_count; i++)
		if (interfaces[i].net == net && interfaces[i].ifindex == dev->ifindex)
			return i;
	if (interface_count == INTERFACES_MAX)
		panic("capture: more than %d interfaces", INTERFACES_MAX);
	interfaces[i].net = net;
	interfaces[i].ifindex = dev->ifindex;
	interface_count++;
	put_interface(dev, linktype);
	return i;
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

static int capture_packet(struct sk_buff *skb, struct net_device *dev,
			  struct packet_type *pt, struct net_device *orig_dev)
{
	bool ethernet = dev->type != ARPHRD_NONE;
	bool taken = skb->pkt_type == PACKET_OUTGOING ? !is_kind(dev, "ifb") : !ethernet;
	u64 now = ktime_get_real_fast_ns();
	size_t block;
	u32 number;

	if (!taken)
		goto out;
	spin_lock_bh(&lock);
	number = interface_number(dev, ethernet ? LINKTYPE_ETHERNET : LINKTYPE_RAW);
	block = block_start(ENHANCED_PACKET);
	put32(number);
	put32(now >> 32);
	put32(now);
	put32(skb->len);		/* captured */
	put32(skb->len);		/* on the wire */
	if (skb_copy_bits(skb, 0, buffer + used, skb->len))
		panic("capture: a packet of %u bytes could not be read", skb->len);
	if (skb->ip_summed == CHECKSUM_PARTIAL && !skb_is_gso(skb))
		complete_checksum(skb, buffer + used);
	used += skb->len;
	block_end(block);
	spin_unlock_bh(&lock);
out:
	consume_skb(skb);
	return 0;
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

static int __net_init capture_net_init(struct net *net)
{
	struct packet_type *tap = net_generic(net, capture_net_id);

	tap->type = htons(ETH_P_ALL);
	tap->func = capture_packet;
	tap->af_packet_net = net;
	dev_add_pack(tap);
	return 0;
}

static void __net_exit capture_net_exit(struct net *net)
{
	unsigned int i;

	dev_remove_pack(net_generic(net, capture_net_id));
	/* another namespace may get this address: its interfaces are new ones */
	for (i = 0; i < interface_count; i++)
		if (interfaces[i].net == net)
			interfaces[i].net = NULL;
}

static struct pernet_operations capture_net_ops = {
	.init = capture_net_init,
	.exit = capture_net_exit,
	.id = &capture_net_id,
	.size = sizeof(struct packet_type),
};

static int capture_reboot(struct notifier_block *nb, unsigned long action, void *data)
{
	spin_lock_bh(&lock);
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
	buffer = capture_memory(MEMORY_SIZE);
	if (!buffer)
		panic("capture: the host has no memory for it");
	as_pages = pipe_size > 0 && pipe_size <= PIPE_SIZE;
	put_section_header();
	register_reboot_notifier(&capture_reboot_notifier);
	return register_pernet_subsys(&capture_net_ops);
}
subsys_initcall(capture_init);
