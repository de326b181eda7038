// SPDX-License-Identifier: GPL-2.0
/*
 * How many processes a guest may have, and how much memory and disk that its directory does not
 * show: what its processes have written themselves and do not share, and files without a name,
 * which last as long as somebody has them open or mapped. A guest that does not attack has hardly
 * any of it: its memory is one file without a name, its processes share it and all descriptors,
 * and map nothing else but the kernel's program.
 *
 * A process is looked at thread by thread. Its first thread may end before the others: then
 * /proc/PID itself shows neither memory nor files, but /proc/PID/task/TID does. A thread that has
 * ended belongs to root, whoever had it, and nobody else may look at its files.
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

/* A file of /proc about a thread of a process. */
static FILE *opened(int proc, pid_t pid, pid_t thread, const char *name)
{
	char path[80];
	int fd;

	snprintf(path, sizeof(path), "%d/task/%d/%s", pid, thread, name);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static DIR *opened_directory(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? NULL : fdopendir(fd);
}

/* The threads of a process; NULL if it is gone. */
static DIR *threads_of(int proc, pid_t pid)
{
	char path[40];

	snprintf(path, sizeof(path), "%d/task", pid);
	return opened_directory(proc, path);
}

/* The next of them; 0 after the last one. */
static pid_t next_thread(DIR *threads)
{
	struct dirent *entry;

	while ((entry = readdir(threads)))
		if (entry->d_name[0] != '.')
			return atoi(entry->d_name);
	return 0;
}

static long add_children(int proc, pid_t pid, long count, long limit)
{
	DIR *threads = threads_of(proc, pid);
	FILE *children;
	pid_t thread;

	if (!threads)
		return count; /* it has ended meanwhile */
	while ((thread = next_thread(threads))) {
		children = opened(proc, pid, thread, "children");
		if (!children)
			continue;
		while (count <= limit && fscanf(children, "%d", &processes[count]) == 1)
			count++;
		fclose(children);
	}
	closedir(threads);
	return count;
}

/* Finds all processes that have come of the first one, without itself. */
static long find_processes(int proc, pid_t first, long limit)
{
	long count = add_children(proc, first, 0, limit);

	for (long i = 0; i < count && count <= limit; i++)
		count = add_children(proc, processes[i], count, limit);
	return count;
}

/* Pages that a thread's process has for itself; -1 if the thread has ended. */
static long own_pages(int proc, pid_t pid, pid_t thread)
{
	FILE *file = opened(proc, pid, thread, "statm");
	long size, resident, shared, pages = -1;

	if (!file)
		return -1;
	if (fscanf(file, "%ld %ld %ld", &size, &resident, &shared) == 3 && size > 0)
		pages = resident - shared;
	fclose(file);
	return pages;
}

/* A thread of the process that has not ended; 0 if there is none. */
static pid_t living_thread(int proc, pid_t pid)
{
	DIR *threads = threads_of(proc, pid);
	pid_t thread;

	if (!threads)
		return 0;
	do
		thread = next_thread(threads);
	while (thread && own_pages(proc, pid, thread) < 0);
	closedir(threads);
	return thread;
}

static long own_memory(int proc, long count)
{
	long pages = 0, own;
	pid_t thread;

	for (long i = 0; i < count; i++) {
		own = own_pages(proc, processes[i], processes[i]);
		if (own < 0 && (thread = living_thread(proc, processes[i])))
			own = own_pages(proc, processes[i], thread);
		pages += own > 0 ? own : 0;
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

/* Bytes of files without a name that were found, and how many are in `nameless`. */
struct found {
	long files;
	long long memory;
	long long disk;
};

/* Whether the kernel has just refused a look at what a thread has, which has not ended. */
static bool hides(int proc, pid_t pid, pid_t thread)
{
	return (errno == EACCES || errno == EPERM) && own_pages(proc, pid, thread) >= 0;
}

/* Adds the files without a name that a thread has open; false if it hides them. */
static bool add_files_of_thread(int proc, pid_t pid, pid_t thread, struct found *found)
{
	struct stat status;
	char path[80];
	bool seen = true;
	DIR *fds;

	snprintf(path, sizeof(path), "%d/task/%d/fd", pid, thread);
	fds = opened_directory(proc, path);
	if (!fds)
		return !hides(proc, pid, thread);
	for (struct dirent *fd; seen && (fd = readdir(fds)) && found->files < OPEN_FILES;) {
		if (fd->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(fds), fd->d_name, &status, 0) < 0) {
			seen = !hides(proc, pid, thread);
			continue;
		}
		if (!S_ISREG(status.st_mode) || status.st_nlink > 0 ||
		    is_nameless(status.st_ino, found->files))
			continue;
		nameless[found->files++] = status.st_ino;
		*(status.st_dev == memory_device() ? &found->memory : &found->disk) +=
			(long long)status.st_blocks * BLOCK;
	}
	closedir(fds);
	return seen;
}

/* Does so for each thread of a process. */
static bool add_files(int proc, pid_t pid, struct found *found)
{
	DIR *threads = threads_of(proc, pid);
	bool seen = true;
	pid_t thread;

	if (!threads)
		return true;
	while (seen && (thread = next_thread(threads)))
		seen = add_files_of_thread(proc, pid, thread, found);
	closedir(threads);
	return seen;
}

/*
 * Bytes of memory that a process shares with others it has started, and of files that it has not
 * open any more: each counts as more than a guest may have, as its size cannot be seen.
 */
static long long mappings(int proc, pid_t pid, long files)
{
	FILE *maps = opened(proc, pid, living_thread(proc, pid), "maps");
	unsigned long from, to, inode;
	long long bytes = 0;
	size_t room = 0;
	char *line = NULL;
	ssize_t length;

	if (!maps)
		return 0;
	while ((length = getline(&line, &room, maps)) > 0) {
		line[--length] = '\0';
		if (length < (ssize_t)strlen(DELETED) ||
		    strcmp(line + length - strlen(DELETED), DELETED) != 0)
			continue;
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) != 3)
			continue;
		if (length > (ssize_t)strlen(SHARED_MEMORY) &&
		    strcmp(line + length - strlen(SHARED_MEMORY) - 1, " " SHARED_MEMORY) == 0)
			bytes += to - from;
		else if (!is_nameless(inode, files))
			bytes += MORE_MIB * MIB + 1;
	}
	free(line);
	fclose(maps);
	return bytes;
}

/* Looks at the files of the kernel's first process, as others map some of them, and of one other. */
static void look_at_files(int proc, pid_t other, long guest_mib)
{
	struct found found = { 0 };
	bool seen = add_files(proc, processes[0], &found);

	if (seen && other != processes[0])
		seen = add_files(proc, other, &found);
	if (!seen)
		snprintf(said, sizeof(said), "a process that hides its files");
	else if (found.disk + mappings(proc, other, found.files) > MORE_MIB * MIB)
		snprintf(said, sizeof(said),
			 "more than %ld MiB of shared memory and of files without a name", MORE_MIB);
	else if (found.memory > (guest_mib + MORE_MIB) * MIB)
		snprintf(said, sizeof(said), "more than %ld MiB of memory", guest_mib + MORE_MIB);
}

const char *passed_limit(int proc, pid_t first, long guest_mib)
{
	long most = guest_mib < MOST_PROCESSES - 1 ? guest_mib : MOST_PROCESSES - 1;
	long count = find_processes(proc, first, most);
	static unsigned long turn;

	if (count > most)
		snprintf(said, sizeof(said), "more than %ld processes", most);
	else if (own_memory(proc, count) > MORE_MIB * MIB)
		snprintf(said, sizeof(said), "more than %ld MiB of memory beside the guest's",
			 MORE_MIB);
	else if (count > 0)
		look_at_files(proc, processes[turn++ % count], guest_mib);
	return said[0] ? said : NULL;
}
