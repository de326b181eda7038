// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory after forks, which the guest's kernel copies in part and shares in part
 * (kernel/patches/speed/fork-copies.patch): what a process writes is its own, whoever writes first, and children of
 * children see what their parents had. Prints what is wrong; exit code 0 if nothing is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 2048
#define FORKS 12
#define STRIDE 7 /* from one page that is written to the next; others are only read */

static unsigned char *memory;
static int failures;

static void check(int right, const char *what, int number)
{
	if (!right) {
		printf("%s (fork %d)\n", what, number);
		failures++;
	}
}

static int is_written(int page)
{
	return page % STRIDE == 0;
}

static void write_pages(int value)
{
	for (int page = 0; page < PAGES; page += STRIDE)
		memset(memory + page * PAGE, value, PAGE);
}

/* Pages that are written have this value; the others have that of their number. */
static int holds(int value)
{
	for (int page = 0; page < PAGES; page++) {
		unsigned char expected = is_written(page) ? value : page;

		for (int place = 0; place < PAGE; place += 512)
			if (memory[page * PAGE + place] != expected)
				return 0;
	}
	return 1;
}

static void one_byte(int pipe_end)
{
	char byte = 0;

	if (write(pipe_end, &byte, 1) != 1)
		exit(2);
}

static void wait_for_byte(int pipe_end)
{
	char byte;

	if (read(pipe_end, &byte, 1) != 1)
		exit(2);
}

static int ended_well(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The child looks before and after its parent writes, writes itself, and has a child of its own. */
static void fork_once(int number)
{
	int before = number, mine = 100 + number, parents = number + 1;
	int go[2], seen[2];
	pid_t child;

	if (pipe(go) || pipe(seen))
		exit(2);
	child = fork();
	if (child == 0) {
		check(holds(before), "a child does not see what its parent had", number);
		one_byte(seen[1]);
		wait_for_byte(go[0]);
		check(holds(before), "a child sees what its parent wrote", number);
		write_pages(mine);
		child = fork();
		if (child == 0) {
			check(holds(mine), "a child's child does not see what its parent had", number);
			write_pages(mine + 1);
			exit(failures != 0);
		}
		check(ended_well(child), "a child's child", number);
		check(holds(mine), "a child sees what its child wrote", number);
		exit(failures != 0);
	}
	wait_for_byte(seen[0]);
	write_pages(parents);
	one_byte(go[1]);
	check(ended_well(child), "a child", number);
	check(holds(parents), "a parent sees what its child wrote", number);
	for (int end = 0; end < 2; end++) {
		close(go[end]);
		close(seen[end]);
	}
}

int main(void)
{
	setbuf(stdout, NULL);
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 2;
	for (int page = 0; page < PAGES; page++)
		memset(memory + page * PAGE, page, PAGE);
	write_pages(0);
	for (int number = 0; number < FORKS; number++)
		fork_once(number);
	return failures != 0;
}
