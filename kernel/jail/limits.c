// SPDX-License-Identifier: GPL-2.0
/*
 * How many processes a guest may have, and how much memory and disk that its directory does not show: what its
 * processes have written themselves and not share, and files without a name, which last as long as somebody has them
 * open or mapped. A guest that does not attack has hardly any of it: its memory is one file without a name, its
 * processes share it and all descriptors, and map nothing else but the kernel's program.
 */
#define _GNU_SOURCE
#include "limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_PROCESSES	8192
#define SHARED_MEMORY	"/dev/zero (deleted)"
#define DELETED		" (deleted)"
#define BLOCK		512

static pid_t processes[MOST_PROCESSES];
static ino_t nameless[OPEN_FILES];
static char said[160];

void set_limits(long guest_mib)
{
	struct rlimit size = { guest_mib * MIB, guest_mib * MIB }, files;

	signal(SIGXFSZ, SIG_IGN); /* else it would end the guest's kernel without a word */
	if (guest_mib && setrlimit(RLIMIT_FSIZE, &size) < 0)
		perror("jail: RLIMIT_FSIZE");
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return;
	if (files.rlim_max > OPEN_FILES)
		files.rlim_max = OPEN_FILES;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		perror("jail: RLIMIT_NOFILE");
}

static FILE *opened(int proc, pid_t pid, const char *name)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static DIR *opened_directory(int proc, pid_t pid, const char *name)
{
	char path[320];
	int fd;

	snprintf(path, sizeof(path), "%d/%s", pid, name);
	fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopendir(fd);
}

static long add_children(int proc, pid_t pid, long count, long limit)
{
	DIR *threads = opened_directory(proc, pid, "task");
	char name[300];
	FILE *children;

	if (!threads)
		return count; /* it has ended meanwhile */
	for (struct dirent *thread; (thread = readdir(threads));) {
		snprintf(name, sizeof(name), "task/%s/children", thread->d_name);
		if (thread->d_name[0] == '.' || !(children = opened(proc, pid, name)))
			continue;
		while (count <= limit && fscanf(children, "%d", &processes[count]) == 1)
			count++;
		fclose(children);
	}
	closedir(threads);
	return count;
}

/* All that have come of the first one, it is not one of them. */
static long find_processes(int proc, pid_t first, long limit)
{
	long count = add_children(proc, first, 0, limit);

	for (long i = 0; i < count && count <= limit; i++)
		count = add_children(proc, processes[i], count, limit);
	return count;
}

static long own_memory(int proc, long count)
{
	long pages = 0, resident, shared;
	FILE *file;

	for (long i = 0; i < count; i++) {
		file = opened(proc, processes[i], "statm");
		if (!file)
			continue;
		if (fscanf(file, "%*d %ld %ld", &resident, &shared) == 2)
			pages += resident - shared;
		fclose(file);
	}
	return pages * sysconf(_SC_PAGESIZE);
}

static bool is_nameless(ino_t inode, long count)
{
	for (long i = 0; i < count; i++)
		if (nameless[i] == inode)
			return true;
	return false;
}

/* Where files are that are memory. */
static dev_t memory_device(void)
{
	static struct stat status;
	int fd;

	if (!status.st_ino && (fd = memfd_create("", MFD_CLOEXEC)) >= 0) {
		fstat(fd, &status);
		close(fd);
	}
	return status.st_dev;
}

/* Adds the files without a name that a process has open to `nameless`; -1 if it does not let itself be looked at. */
static long open_files(int proc, pid_t pid, long count, long long *memory, long long *disk)
{
	DIR *fds = opened_directory(proc, pid, "fd");
	struct stat status;

	if (!fds)
		return errno == EACCES || errno == EPERM ? -1 : count;
	for (struct dirent *fd; (fd = readdir(fds)) && count < OPEN_FILES;) {
		if (fd->d_name[0] == '.' || fstatat(dirfd(fds), fd->d_name, &status, 0) < 0)
			continue;
		if (!S_ISREG(status.st_mode) || status.st_nlink > 0 || is_nameless(status.st_ino, count))
			continue;
		nameless[count++] = status.st_ino;
		*(status.st_dev == memory_device() ? memory : disk) += (long long)status.st_blocks * BLOCK;
	}
	closedir(fds);
	return count;
}

/* Bytes of memory that a process shares with others it has started, and of files it has not open any more: all. */
static long long mappings(int proc, pid_t pid, long count)
{
	FILE *maps = opened(proc, pid, "maps");
	unsigned long from, to, inode;
	long long bytes = 0;
	size_t room = 0;
	char *line = NULL;
	ssize_t length;

	if (!maps)
		return 0;
	while ((length = getline(&line, &room, maps)) > 0) {
		line[--length] = '\0';
		if (length < (ssize_t)strlen(DELETED) || strcmp(line + length - strlen(DELETED), DELETED) != 0)
			continue;
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3)
			continue;
		if (length > (ssize_t)strlen(SHARED_MEMORY) &&
		    strcmp(line + length - strlen(SHARED_MEMORY) - 1, " " SHARED_MEMORY) == 0)
			bytes += to - from;
		else if (!is_nameless(inode, count))
			bytes += MORE_MIB * MIB + 1; /* as large as it may be */
	}
	free(line);
	fclose(maps);
	return bytes;
}

const char *passed_limit(int proc, pid_t first, long guest_mib)
{
	long most = guest_mib < MOST_PROCESSES - 1 ? guest_mib : MOST_PROCESSES - 1;
	long count = find_processes(proc, first, most), files;
	static unsigned long turn;
	long long memory = 0, disk = 0, mapped;
	pid_t next;

	if (count > most)
		snprintf(said, sizeof(said), "more than %ld processes", most);
	else if (own_memory(proc, count) > MORE_MIB * MIB)
		snprintf(said, sizeof(said), "more than %ld MiB of memory beside the guest's", MORE_MIB);
	else if (count > 0) {
		next = processes[turn++ % count];
		files = open_files(proc, processes[0], 0, &memory, &disk); /* of the kernel: others map some of them */
		if (files >= 0 && next != processes[0])
			files = open_files(proc, next, files, &memory, &disk);
		mapped = files < 0 ? 0 : mappings(proc, next, files);
		if (files < 0)
			snprintf(said, sizeof(said), "a process that hides its files");
		else if (disk + mapped > MORE_MIB * MIB)
			snprintf(said, sizeof(said), "more than %ld MiB of shared memory and of files without a name", MORE_MIB);
		else if (memory > (guest_mib + MORE_MIB) * MIB)
			snprintf(said, sizeof(said), "more than %ld MiB of memory", guest_mib + MORE_MIB);
	}
	return said[0] ? said : NULL;
}
