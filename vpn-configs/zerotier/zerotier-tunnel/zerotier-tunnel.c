/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ZeroTier between the two ends of a tunnel: the core in libzt, by its C interface, between a TUN interface and a socket.
 *
 *     zerotier-tunnel keygen                                   makes identity.secret in the working directory
 *     zerotier-tunnel DEVICE MTU PORT OWN PEER SERVER PLANET   carries packets; addresses and PLANET are hexadecimal
 *
 * The server is the controller of the one network. It gives that network's configuration to the other end only, and frames
 * of anybody else are dropped: an address is a hash of the key. PLANET names the only root. There is one thread.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* libzt tells its callbacks more than is asked here */
/* Of ZeroTier 1.8.4, ZeroTierOne.h: what is called here, and what calls back. */
enum { IDENTITY_SECRET = 2, PLANET = 3, CONFIG_UPDATE = 2 };
int ZT_Node_new(void **, void *, void *, const void *callbacks, int64_t);
int ZT_Node_processWirePacket(void *, void *, int64_t, int64_t, const void *, const void *, unsigned, volatile int64_t *);
int ZT_Node_processVirtualNetworkFrame(void *, void *, int64_t, uint64_t, uint64_t, uint64_t, unsigned, unsigned,
				       const void *, unsigned, volatile int64_t *);
int ZT_Node_processBackgroundTasks(void *, void *, int64_t, volatile int64_t *);
int ZT_Node_join(void *, uint64_t, void *, void *);
void ZT_Node_setNetconfMaster(void *, void *);

/* Of NetworkConfig.hpp and NetworkController.hpp. They are C++: an object begins with a pointer to its functions. */
bool read_config(void *config, const char *dictionary) __asm__(
	"_ZN8ZeroTier13NetworkConfig14fromDictionaryERKNS_10DictionaryILj422528EEE");

/* In place of the one in libzt, which mixes addresses in: each compiler would give the same seed other keys. */
void random_bytes(void *to, unsigned bytes) __asm__("_ZN8ZeroTier5Utils15getSecureRandomEPvj");
void random_bytes(void *to, unsigned bytes)
{
	if (getrandom(to, bytes, 0) != (ssize_t)bytes)
		err(EXIT_FAILURE, "getrandom");
}

static int tun, udp;
static const char *mtu = "0", *planet = "";
static uint64_t own, peer, network;
static void (***sender)(void *, uint64_t, uint64_t, const uint64_t *, const void *, bool);

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void put_state(void *node, void *user, void *thread, int type, void *id, const void *data, int bytes)
{
	FILE *file = type == IDENTITY_SECRET && bytes > 0 ? fopen("identity.secret", "wx") : NULL;
	if (file && (fwrite(data, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file)))
		err(EXIT_FAILURE, "identity.secret");
}

static int get_state(void *node, void *user, void *thread, int type, void *id, uint8_t *data, unsigned bytes)
{
	unsigned got = 0;
	FILE *file = type == IDENTITY_SECRET ? fopen("identity.secret", "r") : NULL;
	if (file) {
		got = (unsigned)fread(data, 1, bytes, file);
		fclose(file);
	}
	if (type == PLANET)
		while (got < bytes && sscanf(planet + 2 * got, "%2hhx", data + got) == 1)
			got++;
	return got ? (int)got : -1;
}

/* What finds no room is lost, as with zerotier-one. */
static int send_packet(void *node, void *user, void *thread, int64_t local, const struct sockaddr *to, void *data, unsigned bytes)
{
	bool is_ours = local >= -1 && to->sa_family == AF_INET;
	return is_ours && sendto(udp, data, bytes, MSG_DONTWAIT, to, sizeof(struct sockaddr_in)) > 0 ? 0 : -1;
}

/* MAC.hpp: of an address in the network. */
static uint64_t mac_of(uint64_t address)
{
	uint64_t first = (network & 0xfe) | 2, mac = (first == 0x52 ? 0x32 : first) << 40 | address;
	for (int byte = 1; byte < 6; byte++)
		mac ^= (network >> 8 * byte & 0xff) << 8 * (5 - byte);
	return mac;
}

static void take_frame(void *node, void *user, void *thread, uint64_t net, void *net_user, uint64_t from, uint64_t to,
		       unsigned type, unsigned vlan, const void *data, unsigned bytes)
{
	if (from == mac_of(peer) && write(tun, data, bytes) < 0)
		warn("frame of %u bytes, type %x.%u, to %" PRIx64 " in %" PRIx64, bytes, type, vlan, to, net);
}

static int configured(void *node, void *user, void *thread, uint64_t net, void *net_user, int what)
{
	if (what == CONFIG_UPDATE && own != net >> 24)
		puts("handshake: the controller has sent the network's configuration");
	return 0;
}

static void nothing(void)
{
}

static void init_controller(void *self, void *identity, void *to_members)
{
	sender = to_members;
}

/* A public network (t=1) with the one rule to accept (R). An identity begins with its address. */
static void give_config(void *self, uint64_t net, void *from, uint64_t request, const uint64_t *member)
{
	static char dictionary[422528], config[2 << 20]; /* NetworkConfig has less than 1 MiB */
	unsigned bytes = (unsigned)atoi(mtu);
	if (net != network || (*member != own && *member != peer))
		return;
	snprintf(dictionary, sizeof(dictionary),
		 "v=7\nnwid=%016" PRIx64 "\nts=%" PRIx64 "\nctmd=6ddd00\nid=%010" PRIx64 "\nt=1\nmtu=%x\nR=\001\\0\n", net,
		 (uint64_t)now_ms(), *member, bytes < 1280 ? 1280 : bytes);
	if (!read_config(config, dictionary))
		errx(EXIT_FAILURE, "libzt does not take the network's configuration");
	(**sender)(sender, net, request, member, config, false);
	if (*member == peer)
		puts("handshake: the other end has asked for the network's configuration");
}

static void open_both(const char *device, int port)
{
	struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int bytes = 1 << 20 /* as zerotier-one */, fragments = IP_PMTUDISC_DONT;
	strncpy(wanted.ifr_name, device, IFNAMSIZ - 1);
	tun = open("/dev/net/tun", O_RDWR);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (tun < 0 || ioctl(tun, TUNSETIFF, &wanted) || bind(udp, (const void *)&any, sizeof(any)))
		err(EXIT_FAILURE, "%s, UDP port %d", device, port);
	setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(udp, IPPROTO_IP, IP_MTU_DISCOVER, &fragments, sizeof(fragments));
}

static void carry(void *node)
{
	static uint8_t packet[65536];
	struct pollfd both[] = {{tun, POLLIN, 0}, {udp, POLLIN, 0}};
	struct sockaddr_storage from;
	volatile int64_t next_ms = 0;
	ZT_Node_join(node, network, NULL, NULL);
	for (;;) {
		if (now_ms() >= next_ms)
			ZT_Node_processBackgroundTasks(node, NULL, now_ms(), &next_ms);
		int64_t left_ms = next_ms - now_ms();
		poll(both, 2, left_ms > 0 ? (int)left_ms : 0);
		socklen_t from_bytes = sizeof(from);
		ssize_t bytes = both[1].revents ? recvfrom(udp, packet, sizeof(packet), 0, (void *)&from, &from_bytes) : 0;
		if (bytes > 0)
			ZT_Node_processWirePacket(node, NULL, now_ms(), 1, &from, packet, (unsigned)bytes, &next_ms);
		bytes = both[0].revents ? read(tun, packet, sizeof(packet)) : 0;
		if (bytes < 0)
			err(EXIT_FAILURE, "reading packets");
		if (bytes > 0)
			ZT_Node_processVirtualNetworkFrame(node, NULL, now_ms(), network, mac_of(own), mac_of(peer),
							   *packet >> 4 == 6 ? 0x86dd : 0x0800, 0, packet, (unsigned)bytes, &next_ms);
	}
}

int main(int argc, char **argv)
{
	static void *functions[] = {nothing, nothing, init_controller, give_config}, *controller = functions;
	static void *const callbacks[] = {NULL, put_state, get_state, send_packet, take_frame, configured, nothing, NULL, NULL};
	void *node;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 8) {
		mtu = argv[2];
		own = strtoull(argv[4], NULL, 16);
		peer = strtoull(argv[5], NULL, 16);
		network = strtoull(argv[6], NULL, 16) << 24 | 1;
		planet = argv[7];
		open_both(argv[1], atoi(argv[3]));
	}
	if (ZT_Node_new(&node, NULL, NULL, callbacks, now_ms()))
		errx(EXIT_FAILURE, "libzt does not begin");
	if (argc == 8 && own == network >> 24)
		ZT_Node_setNetconfMaster(node, &controller);
	if (argc == 8)
		carry(node);
}
