/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A tunnel that plays the part of a program that no registry has: packets of a TUN interface in UDP, each byte changed.
 *
 *     udp_tunnel DEVICE PORT REMOTE_IP
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void pass(int from, int to)
{
	uint8_t packet[2048];
	ssize_t bytes = read(from, packet, sizeof(packet));
	for (ssize_t at = 0; at < bytes; at++)
		packet[at] ^= 0x5a;
	if (bytes > 0 && write(to, packet, (size_t)bytes) < 0)
		warn("a packet of %zd bytes", bytes);
}

int main(int argc, char **argv)
{
	struct ifreq wanted = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	struct sockaddr_in end = {.sin_family = AF_INET};
	if (argc != 4)
		errx(EXIT_FAILURE, "usage: udp_tunnel DEVICE PORT REMOTE_IP");
	strncpy(wanted.ifr_name, argv[1], IFNAMSIZ - 1);
	end.sin_port = htons((uint16_t)atoi(argv[2]));
	int tun = open("/dev/net/tun", O_RDWR), udp = socket(AF_INET, SOCK_DGRAM, 0);
	if (tun < 0 || ioctl(tun, TUNSETIFF, &wanted) || bind(udp, (void *)&end, sizeof(end)))
		err(EXIT_FAILURE, "%s", argv[1]);
	end.sin_addr.s_addr = inet_addr(argv[3]);
	if (connect(udp, (void *)&end, sizeof(end)))
		err(EXIT_FAILURE, "%s", argv[3]);
	for (;;) {
		struct pollfd both[] = {{tun, POLLIN, 0}, {udp, POLLIN, 0}};
		poll(both, 2, -1);
		if (both[0].revents)
			pass(tun, udp);
		if (both[1].revents)
			pass(udp, tun);
	}
}
