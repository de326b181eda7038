# SPDX-License-Identifier: GPL-3.0-or-later
"""The packets of one small cell are those of tests/data/golden.json, to the bit: an edit that should change none changes none.

They follow from the kernel and the Debian packages too. With others than those of the file nothing can be compared, which a
warning says; `make golden` writes the file anew, in the commit that says why packets change.
"""

from __future__ import annotations

import json
import os
import warnings

from conftest import REPOSITORY, RunCells

from openbach_run.results.record import Store

FILE = REPOSITORY / "tests/data/golden.json"
CELL = ("vpn=wireguard", "cc=bbr2", "pep=B", "loss=1", "size=100k")


def test_the_packets_are_those_of_before(run_cells: RunCells) -> None:
    (run,) = run_cells("geo_loss", *CELL)
    record = Store(run.record.parents[1]).load(run.record.name)
    assert record is not None
    now = {
        "command": " ".join(("./openbach-run geo_loss", *CELL)),
        **{name: record.identity[name] for name in ("kernel", "image")},
        "capture_hash": record.capture_hash,
    }
    if "UPDATE_GOLDEN" in os.environ:
        FILE.write_text(json.dumps(now, indent=1) + "\n")
    before = json.loads(FILE.read_text())
    if {**now, "capture_hash": ""} == {**before, "capture_hash": ""}:
        assert now["capture_hash"] == before["capture_hash"]
    elif now["capture_hash"] != before["capture_hash"]:
        warnings.warn(f"not compared with {FILE}, which is of {before}: this is {now}; make golden", stacklevel=1)
