# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder with the job `toy`, in both formats of OpenBACH's packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

GENERAL = {
    "name": "toy",
    "description": "",
    "job_version": "1.2",
    "keywords": [],
    "persistent": False,
}
PLATFORM = {"ansible_system": "Debian", "command": "/bin/toy -x", "command_stop": "/bin/toy stop"}
NEW = {**PLATFORM, "supported_platforms": [{"ansible_distribution_release": "trixie"}]}
OLD = [{**PLATFORM, "ansible_distribution_version": "22.04"}]


def job_folder(folder: Path, platform: Any = None, **keys: Any) -> Path:
    """Return the folder of `toy`, made in another one; `keys` go into its description."""
    files = folder / "toy/files"
    files.mkdir(parents=True, exist_ok=True)
    description = {
        "general": GENERAL,
        "platform_configuration": platform or NEW,
        "arguments": {},
        **keys,
    }
    (files / "toy.yml").write_text(yaml.safe_dump(description))
    return folder / "toy"
