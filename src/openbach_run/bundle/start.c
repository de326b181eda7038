// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * What a bundle begins with. It is linked statically: the machine needs neither a C library nor a shell.
 *
 * As FILE (a bundle) it unpacks the archive behind itself into the user's cache, once, and starts openbach-run there.
 * As <unpacked>/bin/python3 (a copy without an archive) it is that bundle's Python, as sys.executable says.
 *
 * The archive is a tar (ustar with GNU's long names) compressed by zstd. A line of fixed length at the end of the file
 * has the identity of its content and its size in bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#define BLOCK		512
#define END_FORMAT	"\nopenbach-run bundle %16[0-9a-f] %" SCNu64 "\n"
#define END_SIZE	59 /* bundle/file.py writes it */

__attribute__((noreturn)) static void fail(const char *what)
{
	fprintf(stderr, "openbach-run: %s: %s\n", what, strerror(errno));
	exit(1);
}

__attribute__((noreturn)) static void damaged(const char *why)
{
	fprintf(stderr, "openbach-run: this bundle is damaged (%s): copy it again\n", why);
	exit(1);
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
	char *made;
	va_list list;

	va_start(list, format);
	if (vasprintf(&made, format, list) < 0)
		fail("memory");
	va_end(list);
	return made;
}

/* The archive's bytes, decompressed. */

static struct {
	int fd;
	uint64_t left;
	ZSTD_DCtx *state;
	char compressed[1 << 17], plain[1 << 17];
	ZSTD_inBuffer in;
	size_t start, end;
} archive;

static void fill(void)
{
	ZSTD_outBuffer out = { archive.plain, sizeof(archive.plain), 0 };
	ssize_t got;
	size_t result;

	while (out.pos == 0) {
		if (archive.in.pos == archive.in.size) {
			got = read(archive.fd, archive.compressed,
				   archive.left < sizeof(archive.compressed) ? archive.left : sizeof(archive.compressed));
			if (got < 0)
				fail("reading this bundle");
			if (got == 0)
				damaged("it ends early");
			archive.left -= got;
			archive.in = (ZSTD_inBuffer){ archive.compressed, got, 0 };
		}
		result = ZSTD_decompressStream(archive.state, &out, &archive.in);
		if (ZSTD_isError(result))
			damaged(ZSTD_getErrorName(result));
	}
	archive.start = 0;
	archive.end = out.pos;
}

static void take(char *to, int fd, uint64_t size, const char *name)
{
	while (size > 0) {
		if (archive.start == archive.end)
			fill();
		size_t part = archive.end - archive.start;
		if (part > size)
			part = size;
		if (to)
			memcpy(to, archive.plain + archive.start, part);
		for (size_t done = 0; fd >= 0 && done < part;) {
			ssize_t written = write(fd, archive.plain + archive.start + done, part - done);
			if (written < 0)
				fail(name);
			done += written;
		}
		to = to ? to + part : NULL;
		archive.start += part;
		size -= part;
	}
}

static void take_padding(uint64_t size)
{
	take(NULL, -1, (BLOCK - size % BLOCK) % BLOCK, NULL);
}

static char *take_text(uint64_t size)
{
	char *taken = calloc(1, size + 1);

	if (!taken)
		fail("memory");
	take(taken, -1, size, NULL);
	take_padding(size);
	return taken;
}

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[8], rest[247];
};

/* Unpacks into the current directory. */
static void unpack(void)
{
	struct header header;
	char *name = NULL, *link = NULL;

	for (;;) {
		take((char *)&header, -1, BLOCK, NULL);
		if (header.name[0] == '\0' && header.type == '\0')
			return;
		if (memcmp(header.magic, "ustar", 5) != 0)
			damaged("no header of a tar archive");
		uint64_t size = strtoull(header.size, NULL, 8);
		mode_t mode = strtoul(header.mode, NULL, 8);
		if (header.type == 'L') {
			name = take_text(size);
			continue;
		}
		if (header.type == 'K') {
			link = take_text(size);
			continue;
		}
		if (!name)
			name = strndup(header.name, sizeof(header.name));
		if (header.type == '5') {
			if (mkdir(name, 0755) < 0 && errno != EEXIST)
				fail(name);
		} else if (header.type == '2') {
			if (!link)
				link = strndup(header.link, sizeof(header.link));
			if (symlink(link, name) < 0)
				fail(name);
		} else {
			int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

			if (fd < 0)
				fail(name);
			take(NULL, fd, size, name);
			take_padding(size);
			if (fchmod(fd, mode) < 0 || close(fd) < 0)
				fail(name);
		}
		free(name);
		free(link);
		name = link = NULL;
	}
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat, (void)kind, (void)place;
	return remove(path);
}

static bool is_there(const char *path)
{
	struct stat stat;

	return lstat(path, &stat) == 0;
}

static void make_directories(const char *path)
{
	char *part = strdup(path);

	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST && !is_there(part))
			fail(text("the cache %s cannot be written (XDG_CACHE_HOME names another place): %s", path, part));
		*slash = '/';
	}
	free(part);
}

/* What others own or can write could be theirs to execute, as `foreign` of paths.py says. */
static void refuse_foreign(const char *path, mode_t sticky)
{
	struct stat seen, itself; /* a link there may be theirs */

	if (stat(path, &seen) < 0 || lstat(path, &itself) < 0)
		return;
	bool writable = seen.st_mode & (seen.st_gid == seen.st_uid ? 0002 : 0022) && !(seen.st_mode & sticky);
	if (!writable && (seen.st_uid == 0 || seen.st_uid == geteuid()) && (itself.st_uid == 0 || itself.st_uid == geteuid()))
		return;
	fprintf(stderr, "openbach-run: another user owns %s or can write to it; XDG_CACHE_HOME names another place\n", path);
	exit(1);
}

/* `place` as it was packed. Another process that unpacks the same is waited for. */
static void ensure(const char *place)
{
	const char *unfinished = text("%s.unfinished", place), *lock_name = text("%s.lock", place);
	int lock, here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	make_directories(place);
	refuse_foreign(dirname(dirname(strdup(place))), S_ISVTX);
	refuse_foreign(dirname(strdup(place)), 0);
	refuse_foreign(place, 0);
	lock = open(lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (lock >= 0)
		futimens(lock, NULL); /* used now: the cache forgets what is not (engine/virtual/cache.py) */
	if (is_there(place)) {
		close(here);
		if (lock >= 0)
			close(lock);
		return;
	}
	if (lock < 0)
		fail(text("the cache cannot be written (XDG_CACHE_HOME names another place): %s", lock_name));
	if (flock(lock, LOCK_EX) < 0)
		fail(lock_name);
	if (!is_there(place)) {
		fprintf(stderr, "openbach-run: unpacking this bundle into %s, once\n", place);
		if (is_there(unfinished) && nftw(unfinished, remove_one, 16, FTW_DEPTH | FTW_PHYS) < 0)
			fail(unfinished);
		if (mkdir(unfinished, 0755) < 0 || chdir(unfinished) < 0)
			fail(unfinished);
		archive.state = ZSTD_createDCtx();
		if (!archive.state)
			fail("memory");
		ZSTD_DCtx_setParameter(archive.state, ZSTD_d_windowLogMax, 27);
		unpack();
		if (rename(unfinished, place) < 0)
			fail(place);
		if (fchdir(here) < 0)
			fail("going back to the current directory");
	}
	close(here);
	close(lock);
}

static char *cache_directory(void)
{
	const char *given = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (given && *given)
		return realpath(given, NULL) ? realpath(given, NULL) : text("%s", given);
	if (home && *home)
		return text("%s/.cache", home);
	fputs("openbach-run: HOME is not set; name a place for the cache with XDG_CACHE_HOME\n", stderr);
	exit(1);
}

/* Python of the guest tree, by the tree's own loader and libraries; nothing of this machine's. */
__attribute__((noreturn)) static void run_python(const char *place, char *const *options, int option_count,
						  char *const *arguments, int count)
{
	const char *const start[] = {
		text("%s/guest/usr/lib64/ld-linux-x86-64.so.2", place), "--inhibit-cache",
		"--library-path", text("%s/guest/usr/lib/x86_64-linux-gnu", place),
		"--argv0", text("%s/bin/python3", place), text("%s/guest/usr/bin/python3", place), "-s",
	};
	size_t started = sizeof(start) / sizeof(start[0]);
	const char **all = calloc(started + option_count + count + 1, sizeof(char *));

	if (!all)
		fail("memory");
	memcpy(all, start, sizeof(start));
	memcpy(all + started, options, option_count * sizeof(char *));
	memcpy(all + started + option_count, arguments, count * sizeof(char *));
	unsetenv("PYTHONHOME");
	unsetenv("PYTHONPATH");
	execv(all[0], (char *const *)all);
	fail(all[0]);
}

int main(int argc, char **argv)
{
	char self[PATH_MAX] = "", end[END_SIZE + 1] = "", identity[17];
	char *const command[] = { "-P", "-m", "openbach_run" };
	const char *place;

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		fail("/proc/self/exe (is /proc mounted?)");
	archive.fd = open(self, O_RDONLY | O_CLOEXEC);
	if (archive.fd < 0 || lseek(archive.fd, -END_SIZE, SEEK_END) < 0 || read(archive.fd, end, END_SIZE) != END_SIZE)
		fail(self);
	if (sscanf(end, END_FORMAT, identity, &archive.left) != 2)
		run_python(dirname(dirname(self)), NULL, 0, argv + 1, argc - 1);
	if (lseek(archive.fd, -(off_t)(END_SIZE + archive.left), SEEK_END) < 0)
		damaged("it is too short");
	place = text("%s/openbach-run/bundle-%s", cache_directory(), identity);
	if (place[0] != '/')
		place = text("%s/%s", get_current_dir_name(), place);
	ensure(place);
	setenv("OPENBACH_RUN_BUNDLE", self, 1);
	setenv("XDG_CACHE_HOME", place, 1); /* the cache entries in the bundle, and those made with it */
	run_python(place, command, 3, argv + 1, argc - 1);
}
