// SPDX-License-Identifier: GPL-3.0-or-later
#define _GNU_SOURCE
#include "privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* /etc/passwd only: a static program cannot load other sources of users. */
bool privileges_find(const char *user, uid_t *uid, gid_t *gid)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *entry = NULL;
	while (file && (entry = fgetpwent(file)) && strcmp(entry->pw_name, user))
		;
	if (entry) {
		*uid = entry->pw_uid;
		*gid = entry->pw_gid;
	}
	if (file)
		fclose(file);
	return entry;
}

static bool become(const char *user)
{
	uid_t uid;
	gid_t gid;
	if (!privileges_find(user, &uid, &gid)) {
		fprintf(stderr, "satpep: -u %s: there is no such user in /etc/passwd. It is made by `make install` of satpep, or by"
				" `useradd --system %s`; -u \"\" stays who it is\n", user, user);
		return false;
	}
	if (uid == geteuid())
		return true; /* systemd has done it */
	if (prctl(PR_SET_KEEPCAPS, 1) || setgroups(0, NULL) || setgid(gid) || setuid(uid)) {
		fprintf(stderr, "satpep: becoming user %s: %s\n", user, strerror(errno));
		return false;
	}
	return true;
}

bool privileges_drop(const char *user)
{
	if (*user && !become(user))
		return false;
	const unsigned kept = 1u << CAP_NET_ADMIN | 1u << CAP_NET_BIND_SERVICE;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = kept, .permitted = kept}};
	if (syscall(SYS_capset, &header, data) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) {
		fprintf(stderr, "satpep: keeping CAP_NET_ADMIN and CAP_NET_BIND_SERVICE only: %s\n", strerror(errno));
		return false;
	}
	return true;
}
