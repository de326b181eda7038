# SPDX-License-Identifier: GPL-3.0-or-later
"""Where this checkout's folders are."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
INVENTORY = REPOSITORY / "inventory.yml"
"""What a scenario runs on that names no other."""
SCENARIOS = REPOSITORY / "scenarios"
SATELLITE_JOB = REPOSITORY / "jobs/satcom_link/files"
"""The job brings what a link file is, and the constellation."""
PROJECT = "satvpn"
"""What our project is called on a controller."""
