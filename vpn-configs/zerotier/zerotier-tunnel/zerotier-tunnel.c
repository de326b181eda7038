/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * ZeroTier between the two ends of a tunnel: the core in libzt, by its C interface, between a TUN interface and a socket.
 *
 *     zerotier-tunnel keygen    makes $VPN_DIR/identity.secret, and prints the public identity
 *     zerotier-tunnel up        carries packets between $VPN_DEVICE and the end whose public identity $VPN_REMOTE_PUBLIC has
 *
 * The server is the only root, in place of those of ZeroTier's makers, and the controller of the one network. That gives its
 * configuration to the other end only; frames of anybody else are dropped. An address is a hash of the key. There is one thread.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Of ZeroTier 1.8.4, ZeroTierOne.h: what is called here. */
enum { STATE_IDENTITY_SECRET = 2, STATE_PLANET = 3 };
enum { CONFIG_UPDATE = 2 };
struct callbacks {
	long version;
	void (*put_state)(void *, void *, void *, int, const uint64_t *, const void *, int);
	int (*get_state)(void *, void *, void *, int, const uint64_t *, void *, unsigned);
	int (*send)(void *, void *, void *, int64_t, const struct sockaddr_storage *, const void *, unsigned, unsigned);
	void (*frame)(void *, void *, void *, uint64_t, void **, uint64_t, uint64_t, unsigned, unsigned, const void *, unsigned);
	int (*configured)(void *, void *, void *, uint64_t, void **, int, const void *);
	void (*event)(void *, void *, void *, int, const void *);
	void *is_path, *find_path;
};
int ZT_Node_new(void **, void *, void *, const struct callbacks *, int64_t);
int ZT_Node_processWirePacket(void *, void *, int64_t, int64_t, const struct sockaddr_storage *, const void *, unsigned,
			      volatile int64_t *);
int ZT_Node_processVirtualNetworkFrame(void *, void *, int64_t, uint64_t, uint64_t, uint64_t, unsigned, unsigned, const void *,
				       unsigned, volatile int64_t *);
int ZT_Node_processBackgroundTasks(void *, void *, int64_t, volatile int64_t *);
int ZT_Node_join(void *, uint64_t, void *, void *);
void ZT_Node_setNetconfMaster(void *, void *);

/* Of the same, NetworkConfig.hpp and NetworkController.hpp, which are C++: a class is a pointer to its functions. */
bool read_config(void *config, const char *dictionary) __asm__(
	"_ZN8ZeroTier13NetworkConfig14fromDictionaryERKNS_10DictionaryILj422528EEE");
struct sender {
	void (**functions)(struct sender *, uint64_t network, uint64_t request, const uint64_t *to, const void *config, bool old);
};
struct controller {
	void *const *functions;
};
#define DICTIONARY_BYTES 422528
#define CONFIG_BYTES (2 << 20) /* more than it has */

#define PORT 9993
#define SOCKET_BYTES (1 << 20) /* as zerotier-one asks for */
#define IDENTITY_HEX 128       /* the public key, in ADDRESS:0:KEY */

static int tun, udp;
static struct sender *sender;
static uint64_t own_address, peer_address, network, own_mac, peer_mac;
static uint8_t planet[512];
static unsigned planet_bytes;

static const char *given(const char *name)
{
	const char *value = getenv(name);
	if (!value)
		errx(EXIT_FAILURE, "%s is not set", name);
	return value;
}

static bool is_server(void)
{
	return strcmp(given("VPN_ROLE"), "server") == 0;
}

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static FILE *secret_file(const char *mode)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/identity.secret", given("VPN_DIR"));
	return fopen(path, mode);
}

static void put_state(void *node, void *user, void *thread, int type, const uint64_t *id, const void *data, int bytes)
{
	(void)node, (void)user, (void)thread, (void)id;
	if (type != STATE_IDENTITY_SECRET || bytes <= 0)
		return;
	FILE *file = secret_file("wx");
	if (!file || fwrite(data, 1, (size_t)bytes, file) != (size_t)bytes || fclose(file))
		err(EXIT_FAILURE, "identity.secret");
}

static int get_state(void *node, void *user, void *thread, int type, const uint64_t *id, void *data, unsigned bytes)
{
	(void)node, (void)user, (void)thread, (void)id;
	if (type == STATE_PLANET && planet_bytes && planet_bytes <= bytes)
		return memcpy(data, planet, planet_bytes), (int)planet_bytes;
	FILE *file = type == STATE_IDENTITY_SECRET ? secret_file("r") : NULL;
	if (!file)
		return -1;
	size_t got = fread(data, 1, bytes, file);
	fclose(file);
	return (int)got;
}

/* What finds no room is lost, as with zerotier-one. */
static int send_packet(void *node, void *user, void *thread, int64_t local, const struct sockaddr_storage *to, const void *data,
		       unsigned bytes, unsigned ttl)
{
	(void)node, (void)user, (void)thread, (void)local, (void)ttl;
	if (to->ss_family != AF_INET)
		return -1;
	return sendto(udp, data, bytes, MSG_DONTWAIT, (const void *)to, sizeof(struct sockaddr_in)) == (ssize_t)bytes ? 0 : -1;
}

static void take_frame(void *node, void *user, void *thread, uint64_t net, void **net_user, uint64_t from, uint64_t to,
		       unsigned type, unsigned vlan, const void *data, unsigned bytes)
{
	(void)node, (void)user, (void)thread, (void)net, (void)net_user, (void)to, (void)type, (void)vlan;
	if (from == peer_mac && write(tun, data, bytes) < 0)
		warn("a packet of %u bytes is not for $VPN_DEVICE", bytes);
}

static int configured(void *node, void *user, void *thread, uint64_t net, void **net_user, int what, const void *config)
{
	(void)node, (void)user, (void)thread, (void)net, (void)net_user, (void)config;
	if (what == CONFIG_UPDATE && own_address != network >> 24)
		puts("handshake: the controller has sent the network's configuration");
	return 0;
}

static void event(void *node, void *user, void *thread, int what, const void *more)
{
	(void)node, (void)user, (void)thread, (void)what, (void)more;
}

static void init_controller(struct controller *self, const void *identity, struct sender *to_members)
{
	(void)self, (void)identity;
	sender = to_members;
}

/* A public network (t=1) with one rule: accept (R). */
static void give_config(struct controller *self, uint64_t net, const void *from, uint64_t request, const uint64_t *identity,
			const void *metadata)
{
	static char dictionary[DICTIONARY_BYTES], config[CONFIG_BYTES];
	(void)self, (void)from, (void)metadata;
	uint64_t member = *identity; /* its first member is the address */
	if (net != network || (member != own_address && member != peer_address))
		return;
	int mtu = atoi(given("VPN_MTU"));
	snprintf(dictionary, sizeof(dictionary), "v=7\nnwid=%016" PRIx64 "\nts=%" PRIx64 "\nctmd=6ddd00\nr=1\nid=%010" PRIx64
		 "\nml=20\nt=1\nn=%s\nmtu=%x\nR=\001\\0\n", net, (uint64_t)now_ms(), member, given("VPN_DEVICE"),
		 mtu < 1280 ? 1280U : (unsigned)mtu);
	if (!read_config(config, dictionary))
		errx(EXIT_FAILURE, "libzt does not take the network's configuration");
	sender->functions[0](sender, net, request, &member, config, false);
	if (member == peer_address)
		puts("handshake: the other end has asked for the network's configuration");
}

static void delete_controller(struct controller *self)
{
	(void)self;
}

/* ADDRESS:0:KEY, as identity.secret and `keygen` have it. */
static void read_identity(FILE *file, const char *what, char line[512])
{
	if (!file || !fgets(line, 512, file) || strlen(line) < 13 + IDENTITY_HEX)
		errx(EXIT_FAILURE, "%s is no identity", what);
	fclose(file);
}

static uint8_t *add_bytes(uint8_t *at, uint64_t value, int bytes)
{
	while (bytes--)
		*at++ = (uint8_t)(value >> 8 * bytes);
	return at;
}

/* World.hpp: type, number, date, key and signature of who may replace it (nobody), roots: identity, places. */
static void make_planet(const char *root, const char *ip)
{
	struct in_addr address;
	unsigned byte;
	uint8_t *at = add_bytes(add_bytes(add_bytes(planet, 1, 1), 1, 8), 1, 8) + 64 + 96;
	at = add_bytes(add_bytes(add_bytes(at, 1, 1), strtoull(root, NULL, 16), 5), 0, 1);
	for (const char *hex = root + 13; hex < root + 13 + IDENTITY_HEX; hex += 2) {
		if (sscanf(hex, "%2x", &byte) != 1)
			errx(EXIT_FAILURE, "%s is no identity", root);
		*at++ = (uint8_t)byte;
	}
	if (!inet_aton(ip, &address))
		errx(EXIT_FAILURE, "%s is no address", ip);
	at = add_bytes(add_bytes(add_bytes(at, 0, 1), 1, 1), 4, 1);
	at = add_bytes(add_bytes(at, ntohl(address.s_addr), 4), PORT + (unsigned)atoi(given("VPN_TUNNEL")), 2);
	planet_bytes = (unsigned)(at - planet);
}

/* MAC.hpp: of an address in a network. */
static uint64_t mac_of(uint64_t address)
{
	uint64_t first = (network & 0xfe) | 2;
	uint64_t mac = (first == 0x52 ? 0x32 : first) << 40 | address;
	for (int byte = 1; byte < 6; byte++)
		mac ^= (network >> 8 * byte & 0xff) << 8 * (5 - byte);
	return mac;
}

static void open_both(void)
{
	struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(PORT + atoi(given("VPN_TUNNEL"))))};
	int bytes = SOCKET_BYTES, fragments = IP_PMTUDISC_DONT;
	strncpy(wanted.ifr_name, given("VPN_DEVICE"), IFNAMSIZ - 1);
	tun = open("/dev/net/tun", O_RDWR);
	if (tun < 0 || ioctl(tun, TUNSETIFF, &wanted))
		err(EXIT_FAILURE, "%s", wanted.ifr_name);
	udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (udp < 0 || bind(udp, (const void *)&own, sizeof(own)))
		err(EXIT_FAILURE, "UDP port %d", ntohs(own.sin_port));
	setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	setsockopt(udp, IPPROTO_IP, IP_MTU_DISCOVER, &fragments, sizeof(fragments));
}

static void carry(void *node)
{
	static uint8_t packet[65536];
	struct pollfd both[] = {{tun, POLLIN, 0}, {udp, POLLIN, 0}};
	volatile int64_t next_ms = 0;
	for (;;) {
		if (now_ms() >= next_ms)
			ZT_Node_processBackgroundTasks(node, NULL, now_ms(), &next_ms);
		int64_t left_ms = next_ms - now_ms();
		if (poll(both, 2, left_ms > 0 ? (int)left_ms : 0) < 0)
			err(EXIT_FAILURE, "poll");
		struct sockaddr_storage from = {0};
		socklen_t from_bytes = sizeof(from);
		ssize_t bytes = both[1].revents ? recvfrom(udp, packet, sizeof(packet), 0, (void *)&from, &from_bytes) : 0;
		if (bytes > 0)
			ZT_Node_processWirePacket(node, NULL, now_ms(), 1, &from, packet, (unsigned)bytes, &next_ms);
		bytes = both[0].revents ? read(tun, packet, sizeof(packet)) : 0;
		if (bytes < 0)
			err(EXIT_FAILURE, "%s", given("VPN_DEVICE"));
		if (bytes > 0)
			ZT_Node_processVirtualNetworkFrame(node, NULL, now_ms(), network, own_mac, peer_mac,
							   packet[0] >> 4 == 6 ? 0x86dd : 0x0800, 0, packet, (unsigned)bytes,
							   &next_ms);
	}
}

int main(int argc, char **argv)
{
	static void *const functions[] = {(void *)delete_controller, (void *)delete_controller, (void *)init_controller,
					  (void *)give_config};
	static struct controller controller = {functions};
	static const struct callbacks callbacks = {0, put_state, get_state, send_packet, take_frame, configured, event, NULL, NULL};
	char own[512], peer[512];
	void *node;
	bool makes_key = argc == 2 && strcmp(argv[1], "keygen") == 0;
	if (!makes_key && (argc != 2 || strcmp(argv[1], "up")))
		errx(EXIT_FAILURE, "usage: zerotier-tunnel keygen|up");
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!makes_key) {
		read_identity(secret_file("r"), "identity.secret", own);
		read_identity(fopen(given("VPN_REMOTE_PUBLIC"), "r"), given("VPN_REMOTE_PUBLIC"), peer);
		own_address = strtoull(own, NULL, 16);
		peer_address = strtoull(peer, NULL, 16);
		network = (is_server() ? own_address : peer_address) << 24 | 1;
		own_mac = mac_of(own_address);
		peer_mac = mac_of(peer_address);
		make_planet(is_server() ? own : peer, given(is_server() ? "VPN_LOCAL_IP" : "VPN_REMOTE_IP"));
		open_both();
	}
	if (ZT_Node_new(&node, NULL, NULL, &callbacks, now_ms()))
		errx(EXIT_FAILURE, "libzt does not begin");
	if (makes_key) {
		read_identity(secret_file("r"), "identity.secret", own);
		return printf("%.*s\n", 13 + IDENTITY_HEX, own) < 0;
	}
	if (is_server())
		ZT_Node_setNetconfMaster(node, &controller);
	ZT_Node_join(node, network, NULL, NULL);
	carry(node);
}
