# SPDX-License-Identifier: GPL-3.0-or-later
"""Open files of a process: a guest has those that its programs open, as files of the host."""

from __future__ import annotations

import resource

from openbach_run.errors import SetupError

NEEDED = 256
"""A run with OpenVPN and two proxies took between 100 and 128."""
WANTED = 4096


def ensure_descriptors() -> None:
    """Raise this process's limit of open files as far as it may.

    Raises SetupError if that is too low for a run.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= WANTED:
        return
    resource.setrlimit(
        resource.RLIMIT_NOFILE,
        (WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED), hard),
    )
    if resource.RLIM_INFINITY != hard < NEEDED:
        raise SetupError(
            f"a run needs {NEEDED} open files, the limit is {hard}: raise it with ulimit -n"
            f" {NEEDED}, or more"
        )
