# SPDX-License-Identifier: GPL-3.0-or-later
"""The documentation's table of OpenBACH's own jobs is what tools/upstream_jobs.py recorded."""

from __future__ import annotations

import json

import upstream_jobs

from openbach_run.paths import REPOSITORY


def test_the_table_says_what_was_recorded() -> None:
    known = json.loads(upstream_jobs.FILE.read_text())
    begin, end = upstream_jobs.MARKERS
    shown = upstream_jobs.DOCUMENT.read_text().partition(begin)[2].partition(end)[0]
    assert shown.strip() == upstream_jobs.table(known)


def test_every_job_of_upstream_is_in_it() -> None:
    schemas = json.loads((REPOSITORY / "tests/data/job_schemas.json").read_text())
    assert (
        set(json.loads(upstream_jobs.FILE.read_text())) == set(schemas) == set(upstream_jobs.CASES)
    )


def test_what_does_not_run_has_a_reason() -> None:
    known = json.loads(upstream_jobs.FILE.read_text())
    assert all(one["why"] for one in known.values() if not one["runs"])
