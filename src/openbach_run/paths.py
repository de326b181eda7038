# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this checkout's folders are."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CONTENT = (
    *("LICENSE", "README.md", "campaigns", "congestion-controls", "docs", "inventory.yml", "jobs", "kernel", "pep"),
    *("pyproject.toml", "reports/claims.yml", "reports/templates", "requirements.lock", "satellites", "scenarios"),
    *("src", "topologies", "vpn-configs"),
)
"""What the command uses of it: all but tests, benches and reports."""
LOCK = REPOSITORY / "requirements.lock"
INVENTORY = REPOSITORY / "inventory.yml"
"""What a scenario runs on that names no other."""
SCENARIOS = REPOSITORY / "scenarios"
SATELLITE_JOB = REPOSITORY / "jobs/satcom_link/files"
"""The job brings what a link file is, and the constellation."""
PROJECT = "satvpn"
"""What our project is called on a controller."""
