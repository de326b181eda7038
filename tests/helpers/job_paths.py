# SPDX-License-Identifier: GPL-3.0-or-later
"""The places of the jobs' own modules, which an import of this module puts where Python looks.

A job's modules are imported by their names, as on an agent from the job's folder. A new job is
found here, and listed nowhere.
"""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def job_paths(repository: Path) -> list[str]:
    """Return the folders of a checkout that hold modules of jobs, in order of their names."""
    return sorted({str(file.parent) for file in repository.glob("jobs/*/files/*.py")})


sys.path += [path for path in job_paths(REPOSITORY) if path not in sys.path]
