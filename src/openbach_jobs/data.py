# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of data that jobs read, such as satellites and vpn-configs."""

from __future__ import annotations

from pathlib import Path

LIBRARY = "library"
"""Folder of a checkout with the kinds of data that do not lie at its top."""


def data_folder(kind: str) -> Path:
    """Return the folder of a kind of data, such as `satellites`.

    An agent has it in the job's own folder, beside this package. In a checkout and in the guest it
    is further up, where all jobs have the same one: in a checkout some lie in LIBRARY.
    """
    job = Path(__file__).parents[1]
    for place in (job, *job.parents):
        for folder in (place / kind, place / LIBRARY / kind):
            if folder.is_dir():
                return folder
    return job / kind
