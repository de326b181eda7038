// SPDX-License-Identifier: GPL-3.0-or-later
#include "leg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IPV6_TRANSPARENT
#define IPV6_TRANSPARENT 75 /* linux/in6.h */
#endif

enum { FASTOPEN_QUEUE = 1024, KEEPALIVE_PROBES = 3, ECN_BITS = 3, SYN_BYTES = 256 };

in_port_t *address_port(union address *address)
{
	return address->any.sa_family == AF_INET ? &address->v4.sin_port : &address->v6.sin6_port;
}

socklen_t address_bytes(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

const char *address_text(const union address *address, char text[ADDRESS_TEXT_BYTES])
{
	char host[INET6_ADDRSTRLEN];
	bool v4 = address->any.sa_family == AF_INET;
	inet_ntop(address->any.sa_family, v4 ? (void *)&address->v4.sin_addr : (void *)&address->v6.sin6_addr, host, sizeof(host));
	snprintf(text, ADDRESS_TEXT_BYTES, v4 ? "%s:%u" : "[%s]:%u", host, ntohs(v4 ? address->v4.sin_port : address->v6.sin6_port));
	return text;
}

static int set(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value));
}

/* May use addresses that are not this host's. */
static int set_transparent(int fd, int family)
{
	return family == AF_INET ? set(fd, IPPROTO_IP, IP_TRANSPARENT, 1) : set(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1);
}

/*
 * A process that is killed leaves its sockets to the kernel, which would end them with a FIN, as if all had been sent. And a byte
 * marked as urgent stays in its place among the others.
 */
static bool set_always(int fd)
{
	const struct linger reset = {.l_onoff = 1, .l_linger = 0};
	return !setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) && !set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
}

/* An end that is silent for so long is asked whether it is still there; without an answer it is gone. */
static bool set_keepalive(int fd, int idle_s)
{
	int interval_s = idle_s < 10 ? 1 : idle_s / 10;
	return !set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) && !set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s) &&
	       !set(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval_s) && !set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES);
}

/* Everything that must be known before the first packet. Returns the option that failed, NULL if none did. */
static const char *apply(int fd, const struct leg_options *options)
{
	if (!set_always(fd))
		return "SO_LINGER, SO_OOBINLINE";
	if (options->keepalive_s && !set_keepalive(fd, options->keepalive_s))
		return "keepalive";
	if (*options->cc && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options->cc, (socklen_t)strlen(options->cc)))
		return "congestion control";
	if (options->mss && set(fd, IPPROTO_TCP, TCP_MAXSEG, options->mss))
		return "MSS";
	if (options->sndbuf_bytes && set(fd, SOL_SOCKET, SO_SNDBUFFORCE, options->sndbuf_bytes / 2))
		return "send buffer";
	if (options->rcvbuf_bytes && set(fd, SOL_SOCKET, SO_RCVBUFFORCE, options->rcvbuf_bytes / 2))
		return "receive buffer";
	if (options->nodelay && set(fd, IPPROTO_TCP, TCP_NODELAY, 1))
		return "TCP_NODELAY";
	return NULL;
}

static union address any_address(int family, uint16_t port)
{
	union address any = {0};
	any.any.sa_family = (sa_family_t)family;
	*address_port(&any) = htons(port);
	return any;
}

int leg_bind(int family, uint16_t port, const struct leg_options *options)
{
	const union address any = any_address(family, port);
	const char *failed = "socket";
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		failed = apply(fd, options);
	if (!failed && (set(fd, SOL_SOCKET, SO_REUSEADDR, 1) || set_transparent(fd, family)))
		failed = "IP_TRANSPARENT (needs CAP_NET_ADMIN)";
	if (!failed && family == AF_INET6 && set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1))
		failed = "IPV6_V6ONLY";
	if (!failed && options->fastopen && set(fd, IPPROTO_TCP, TCP_FASTOPEN, FASTOPEN_QUEUE))
		failed = "TCP_FASTOPEN";
	if (!failed && set(fd, IPPROTO_TCP, TCP_SAVE_SYN, 1))
		failed = "TCP_SAVE_SYN";
	if (!failed && bind(fd, &any.any, address_bytes(&any)))
		failed = "listening";
	if (!failed)
		return fd;
	fprintf(stderr, "satpep: %s port %u: %s: %s\n", family == AF_INET ? "IPv4" : "IPv6", port, failed, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

int leg_syn_tos(const struct leg *leg)
{
	unsigned char syn[SYN_BYTES];
	socklen_t bytes = sizeof(syn);
	if (getsockopt(leg->fd, IPPROTO_TCP, TCP_SAVED_SYN, syn, &bytes) || bytes < 2)
		return 0;
	int tos = syn[0] >> 4 == 4 ? syn[1] : (syn[0] << 4 | syn[1] >> 4) & 0xff;
	return tos & ~ECN_BITS;
}

static int set_tos(int fd, int family, int tos)
{
	return family == AF_INET ? set(fd, IPPROTO_IP, IP_TOS, tos) : set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
}

void leg_set_tos(const struct leg *leg, int tos)
{
	int family = AF_INET;
	socklen_t bytes = sizeof(family);
	getsockopt(leg->fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes);
	set_tos(leg->fd, family, tos);
}

static int begin(const union address *from, const struct leg_target *target, const struct leg_options *options)
{
	const union address *server = target->server;
	int family = server->any.sa_family;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	bool bound = !set(fd, SOL_SOCKET, SO_REUSEADDR, 1) && !set_transparent(fd, family) && !apply(fd, options);
	if (target->tos)
		bound = bound && !set_tos(fd, family, target->tos);
	if (options->fastopen && target->has_data)
		bound = bound && !set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
	bound = bound && !bind(fd, &from->any, address_bytes(from));
	if (bound && (!connect(fd, &server->any, address_bytes(server)) || errno == EINPROGRESS))
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

int leg_connect(const struct leg_target *target, const struct leg_options *options)
{
	int fd = begin(target->client, target, options);
	/* The port is taken here, but not at the client: an earlier connection is in TIME-WAIT, or a program of this host listens. */
	if (fd >= 0 || (errno != EADDRNOTAVAIL && errno != EADDRINUSE))
		return fd;
	union address any_port = *target->client;
	*address_port(&any_port) = 0;
	return begin(&any_port, target, options);
}

bool address_is_local(const union address *address)
{
	union address free_port = *address;
	*address_port(&free_port) = 0;
	int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	bool local = !bind(fd, &free_port.any, address_bytes(&free_port));
	close(fd);
	return local;
}

void leg_reset(struct leg *leg)
{
	if (leg->fd < 0)
		return;
	close(leg->fd); /* set_always() makes it a reset */
	leg->fd = -1;
}

int leg_error(const struct leg *leg)
{
	int error = 0;
	socklen_t bytes = sizeof(error);
	return getsockopt(leg->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) ? errno : error;
}

bool leg_is_at_urgent_byte(const struct leg *leg)
{
	return sockatmark(leg->fd) == 1;
}

static bool info(const struct leg *leg, struct tcp_info *info)
{
	socklen_t bytes = sizeof(*info);
	memset(info, 0, sizeof(*info));
	return !getsockopt(leg->fd, IPPROTO_TCP, TCP_INFO, info, &bytes);
}

bool leg_is_closed(const struct leg *leg)
{
	struct tcp_info now;
	return leg->fd < 0 || !info(leg, &now) || now.tcpi_state == 7 /* TCP_CLOSE */;
}

static int queued_bytes(int fd, unsigned long which)
{
	int bytes = 0;
	return ioctl(fd, which, &bytes) ? 0 : bytes;
}

int leg_received_bytes(const struct leg *leg)
{
	return queued_bytes(leg->fd, SIOCINQ);
}

int leg_unsent_bytes(const struct leg *leg)
{
	return queued_bytes(leg->fd, SIOCOUTQNSD);
}

void leg_acknowledge_at_once(const struct leg *leg)
{
	set(leg->fd, IPPROTO_TCP, TCP_QUICKACK, 1);
}

void leg_wait_until_sent(const struct leg *leg)
{
	set(leg->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 1);
}

void leg_describe(const struct leg *leg, struct log *log)
{
	char cc[CC_NAME_BYTES + 1] = "";
	socklen_t bytes = CC_NAME_BYTES;
	struct tcp_info now;
	getsockopt(leg->fd, IPPROTO_TCP, TCP_CONGESTION, cc, &bytes);
	info(leg, &now);
	log_add(log, "{\"cc\": \"%s\", \"mss_bytes\": %u, \"rtt_ms\": %.3f, \"cwnd_segments\": %u, \"retransmits\": %u, ", cc,
		now.tcpi_snd_mss, now.tcpi_rtt / 1e3, now.tcpi_snd_cwnd, now.tcpi_total_retrans);
	log_add(log, "\"min_rtt_ms\": %.3f, \"delivery_rate_bps\": %llu}", now.tcpi_min_rtt == ~0U ? 0 : now.tcpi_min_rtt / 1e3,
		8ULL * now.tcpi_delivery_rate);
}
