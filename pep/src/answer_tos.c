// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "answer_tos.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DSCP_BITS = 0xfc, SYN_ACK = 0x12, V4_BYTES = 20, V6_BYTES = 40, SHOWN_BYTES = 128 };

/* TCP, a DSCP, SYN and ACK. The data begins with the IP header. */
static struct sock_filter v4_filter[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 7),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 1),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, DSCP_BITS, 0, 5),
	BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_IND, 13),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_ACK),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN_ACK, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SHOWN_BYTES),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

static struct sock_filter v6_filter[] = {
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 6),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_TCP, 0, 6),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, DSCP_BITS << 4, 0, 4),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, V6_BYTES + 13),
	BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN_ACK),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN_ACK, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SHOWN_BYTES),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

static const struct {
	unsigned short protocol;
	struct sock_fprog filter;
} families[2] = {
	{ETH_P_IP, {sizeof(v4_filter) / sizeof(v4_filter[0]), v4_filter}},
	{ETH_P_IPV6, {sizeof(v6_filter) / sizeof(v6_filter[0]), v6_filter}},
};

void answer_tos_open(struct answer_tos *answers)
{
	for (int i = 0; i < 2; i++) {
		const struct sockaddr_ll all = {.sll_family = AF_PACKET, .sll_protocol = htons(families[i].protocol)};
		int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); /* no packets before the filter */
		if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &families[i].filter, sizeof(families[i].filter)) ||
		    bind(fd, (const struct sockaddr *)&all, sizeof(all))) {
			fprintf(stderr, "satpep: servers' DSCP is not copied: a packet socket (needs CAP_NET_RAW): %s\n", strerror(errno));
			if (fd >= 0)
				close(fd);
			fd = -1;
		}
		answers->fds[i] = fd;
	}
}

void answer_tos_close(struct answer_tos *answers)
{
	for (int i = 0; i < 2; i++)
		if (answers->fds[i] >= 0)
			close(answers->fds[i]);
}

static struct answer *place_of(struct answer_tos *answers, in_port_t client, in_port_t server)
{
	return &answers->answers[(client ^ server) % ANSWERS];
}

/* The server's address comes first: it is the SYN-ACK's source. */
static bool read_answer(const unsigned char *packet, size_t bytes, struct answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	bool v4 = bytes > 0 && packet[0] >> 4 == 4;
	size_t header_bytes = v4 ? 4 * (size_t)(packet[0] & 0xf) : V6_BYTES;
	if (bytes < V4_BYTES || bytes < header_bytes + 4)
		return false;
	const unsigned char *ports = packet + header_bytes;
	answer->client.any.sa_family = answer->server.any.sa_family = v4 ? AF_INET : AF_INET6;
	memcpy(address_port(&answer->server), ports, sizeof(in_port_t));
	memcpy(address_port(&answer->client), ports + 2, sizeof(in_port_t));
	if (v4) {
		memcpy(&answer->server.v4.sin_addr, packet + 12, 4);
		memcpy(&answer->client.v4.sin_addr, packet + 16, 4);
	} else {
		memcpy(&answer->server.v6.sin6_addr, packet + 8, 16);
		memcpy(&answer->client.v6.sin6_addr, packet + 24, 16);
	}
	answer->tos = (v4 ? packet[1] : (packet[0] << 4 | packet[1] >> 4)) & DSCP_BITS;
	return true;
}

static void take(struct answer_tos *answers, int fd)
{
	unsigned char packet[SHOWN_BYTES];
	struct answer answer;
	for (ssize_t bytes; (bytes = recv(fd, packet, sizeof(packet), 0)) >= 0;)
		if (read_answer(packet, (size_t)bytes, &answer))
			*place_of(answers, *address_port(&answer.client), *address_port(&answer.server)) = answer;
}

static bool same(const union address *one, const union address *other)
{
	if (one->any.sa_family != other->any.sa_family)
		return false;
	if (one->any.sa_family == AF_INET)
		return one->v4.sin_port == other->v4.sin_port && one->v4.sin_addr.s_addr == other->v4.sin_addr.s_addr;
	return one->v6.sin6_port == other->v6.sin6_port &&
	       !memcmp(&one->v6.sin6_addr, &other->v6.sin6_addr, sizeof(one->v6.sin6_addr));
}

int answer_tos_of(struct answer_tos *answers, const union address *client, const union address *server)
{
	int fd = answers->fds[client->any.sa_family == AF_INET6];
	union address from = *client, to = *server;
	if (fd < 0)
		return 0;
	take(answers, fd);
	const struct answer *answer = place_of(answers, *address_port(&from), *address_port(&to));
	return same(&answer->client, client) && same(&answer->server, server) ? answer->tos : 0;
}
