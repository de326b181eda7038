# SPDX-License-Identifier: GPL-3.0-or-later
"""Careful Resume (RFC 9959).

A transfer of 1 MB after one of 5 MB, over a path that is as before, or is not.

What became of the saved parameters is counted in /proc/net of the sender
(docs/method/careful-resume.md).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command, records
from helpers.scenario_with import Snapshot, ran, with_snapshot

PLAIN = {"cubic_resume": "cubic", "bbr3_resume": "bbr3"}
RTT_S = 0.5
WARM = ("loss=0", "size=1M", "warm_up=5M")
BETWEEN_S = 12
"""Seconds after the job has begun: the earlier transfer has ended, the measured one has sent no
data."""
END_S = 30
SLOW = "tc qdisc change dev q_forward root handle 1: tbf rate 1mbit burst 1540 limit 62500"
NEAR = " && ".join(
    f"tc qdisc change dev {device} root handle 2: netem limit 100000 delay 50ms"
    for device in ("to_st", "to_gw")
)


class Transfer(NamedTuple):
    """The run, what the module has counted at its end, and windows of the measured transfer.

    It is the largest window of each half second.
    """

    run: Run
    counts: dict[str, int]
    windows: list[int]

    @property
    def time_s(self) -> float:
        return float(self.run.row["transfer_time_s"])


@pytest.fixture(params=PLAIN)
def cc(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def transfer(
    place: Path,
    cc: str,
    *snapshots: Snapshot,
    first: Sequence[tuple[str, str]] = (),
    options: Sequence[str] = (),
    settings: Sequence[str] = WARM,
) -> Transfer:
    """Commands beside the transfer, and before it."""
    place.mkdir()
    look = f"cat /proc/net/tcp_{cc} 2>&1; ss -tinHO state established sport = :5201"
    watch: Snapshot = ("server", 0, f"for i in `seq {2 * END_S}`; do {look}; sleep 0.5; done")
    scenario = with_snapshot(place, watch, *snapshots, first=first)
    asked = ["vpn=none", f"cc={cc}", *settings, *options, "--seeds", "1"]
    run = ran(scenario, place / "r", *asked)
    words = [
        line.split()
        for line in max(
            (one["printed"] for one in run.statistics("snapshot")), key=len
        ).splitlines()
    ]
    counts = {line[0]: int(line[1]) for line in words if len(line) == 2}
    windows = [
        int(word.removeprefix("cwnd:"))
        for line in words
        for word in line
        if word.startswith("cwnd:")
    ]
    return Transfer(run, counts, windows)


def told(counts: dict[str, int]) -> dict[str, int]:
    """What has happened, without what was saved."""
    return {name: count for name, count in counts.items() if count and name != "saved"}


def test_on_a_path_that_is_as_before_it_jumps(tmp_path: Path, run_cells: RunCells, cc: str) -> None:
    """Three doublings of slow start less.

    The later ones of both are in a buffer that fills.
    """
    seen = transfer(tmp_path / "resumed", cc)
    (plain,) = run_cells("geo_loss", "vpn=none", f"cc={PLAIN[cc]}", *WARM)
    assert seen.run.row["resumes"] == "1"
    assert told(seen.counts) == {"resumed": 1, "validated": 1}
    assert seen.time_s < float(plain.row["transfer_time_s"]) - RTT_S


def test_on_a_path_of_less_capacity_it_retreats(tmp_path: Path, cc: str) -> None:
    """A tenth of the rate: the jump overflows the buffer.

    The set is deleted, and the transfer is not later for it.
    """
    fallen: Snapshot = ("sat", BETWEEN_S, SLOW)
    seen = transfer(tmp_path / "resumed", cc, fallen)
    plain = transfer(tmp_path / "plain", PLAIN[cc], fallen)
    assert told(seen.counts) == {"resumed": 1, "retreated": 1}
    assert seen.time_s < 1.1 * plain.time_s


def test_on_a_path_of_another_rtt_it_does_not_resume(tmp_path: Path, cc: str) -> None:
    seen = transfer(tmp_path / "near", cc, ("sat", BETWEEN_S, NEAR))
    assert told(seen.counts) == {"other_rtt": 1}
    assert seen.run.row["resumes"] == "0"


def test_saved_parameters_expire(tmp_path: Path, cc: str) -> None:
    short = ("server", f"echo 1 > /sys/module/tcp_{cc}/parameters/lifetime_s")
    seen = transfer(tmp_path / "expired", cc, first=[short])
    assert told(seen.counts) == {"expired": 1}
    assert seen.run.row["resumes"] == "0"


def test_the_table_can_be_emptied(tmp_path: Path, cc: str) -> None:
    seen = transfer(tmp_path / "emptied", cc, ("server", BETWEEN_S, f"echo > /proc/net/tcp_{cc}"))
    assert seen.counts["saved"] > 0
    assert told(seen.counts) == {}


def test_one_connection_at_a_time_uses_a_set(tmp_path: Path, cc: str) -> None:
    seen = transfer(
        tmp_path / "two", cc, settings=("loss=0", "size=5M", "warm_up=10M", "streams=2")
    )
    assert seen.run.row["resumes"] == "1"
    assert seen.counts["in_use"] == 1


def test_turned_off_it_sends_as_the_plain_control_does(tmp_path: Path) -> None:
    """CUBIC; BBR waits for random times, which another start changes.

    With the profile's receive buffer, which is another part of it. The capture is not the same: the
    job that looks for the plain control's name starts the transfer 2 us later, with other sequence
    numbers.
    """
    cc = "cubic_resume"
    mine = tmp_path / "mine/congestion-controls" / cc
    controls = REPOSITORY / "library/congestion-controls"
    shutil.copytree(controls / PLAIN[cc], mine)
    profile = json.loads((controls / cc / "profile.json").read_text())
    (mine / "profile.json").write_text(json.dumps({**profile, "algorithm": PLAIN[cc]}))
    off = (
        "server",
        f"test ! -e /sys/module/tcp_{cc} || echo 0 > /sys/module/tcp_{cc}/parameters/lifetime_s",
    )
    turned_off = transfer(tmp_path / "off", cc, first=[off])
    plain = transfer(
        tmp_path / "plain", cc, first=[off], options=["--with", str(tmp_path / "mine")]
    )
    assert turned_off.counts["saved"] == 0 and not plain.counts
    assert turned_off.windows == plain.windows
    assert turned_off.time_s == pytest.approx(plain.time_s, abs=1e-5)


def test_the_same_seed_gives_the_same_packets(tmp_path: Path, cc: str) -> None:
    """With losses: the table is what the first transfer has left."""
    cell = ["geo_loss", "vpn=none", f"cc={cc}", "loss=0.1", "size=2M", "warm_up=5M", "--seeds", "1"]
    captures = set()
    for again in ("once", "twice"):
        ended = command(*cell, "--results", str(tmp_path / again))
        assert ended.returncode == 0, ended.stderr
        (run,) = records(tmp_path / again)
        captures.add(run.row["capture_hash"])
    assert len(captures) == 1


def test_a_leg_of_a_proxy_resumes(run_cells: RunCells, cc: str) -> None:
    """The one from the POP to the client."""
    (run,) = run_cells("geo_loss", "vpn=none", f"cc={cc}", "pep=B", *WARM)
    (plain,) = run_cells("geo_loss", "vpn=none", f"cc={PLAIN[cc]}", "pep=B", *WARM)
    assert run.row["proxy_resumes"] == "1"
    assert float(run.row["transfer_time_s"]) < float(plain.row["transfer_time_s"]) - RTT_S
