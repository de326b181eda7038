// SPDX-License-Identifier: GPL-3.0-or-later
/* A client that waits for as long as the CPU's own clock says: no two of its runs are the same.
 * The prime is no multiple of the steps in which a CPU counts. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <x86intrin.h>

int main(void)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	char line[200];
	int fd;

	if (getaddrinfo("server", "4433", &hints, &found))
		return 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	usleep(__rdtsc() % 100003);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) || read(fd, line, sizeof(line)) <= 0)
		return 1;
	puts("connected");
	return 0;
}
