# SPDX-License-Identifier: GPL-3.0-or-later
"""Measured commands and silences, in the real guest."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from helpers.guest_runs import RunCells, command

GEO = ("exec", "geo", "cc=cubic", "loss=0", "noise=off")


def measured(tmp_path: Path, *words: str, code: int = 0) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a measured command, and what was said."""
    done = command(*GEO, *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    (file,) = tmp_path.glob("results/*/results.csv")
    return list(csv.DictReader(file.open())), done.stdout + done.stderr


def test_commands_are_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "said.txt").write_text("v 7\n")
    words = [
        "vpn=none,wireguard", "--seeds", "1", "--file", "said.txt:given",
        "--measure", "rtt_ms@2=time=([\\d.]+) ms", "--measure", "took_s@2=seconds",
        "--measure", "given=v ([0-9]+)$", "--measure", "code@1=exit_code",
        "--", "server", "echo $((6*7)); exit 3", "pc", "ping -c 3 server", "gw", "cat given",
    ]  # fmt: skip
    rows, said = measured(tmp_path, *words)
    assert [row["vpn"] for row in rows] == ["none", "wireguard"]
    for row in rows:
        assert float(row["rtt_ms"]) == 500 and 2.4 < float(row["took_s"]) < 2.6
        assert (row["given"], row["code"]) == ("7.0", "3.0")
    assert "2 of 2 runs" in said
    again, said = measured(tmp_path, *words)
    assert again == rows and "1 of" not in said, "what has finished is not run again"
    kept = tmp_path / "results/geo_cat.yml"
    done = command(str(kept), "vpn=none", "cc=cubic", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_nothing_that_fits_is_no_number(tmp_path: Path) -> None:
    steps = ["vpn=none", "--seeds", "1", "--", "pc", "ping -c 1 server"]
    rows, said = measured(tmp_path, "--measure", "a=nothing (x)", *steps, code=1)
    assert [row["status"] for row in rows] == ["Finished Ko"] and "fits nothing (x)" in said
    rows, said = measured(tmp_path, "--measure", "a?=nothing (x)", *steps)
    assert [row["status"] for row in rows] == ["Finished Ok"] and not rows[0].get("a")
    assert "nothing" in said


def test_output_without_end_and_hostile_searches_end(tmp_path: Path) -> None:
    for line, words in (
        ("yes", "has printed more than 1048576 bytes"),
        (f"echo {'a' * 60}1x", "exceeded PCRE's backtracking limit"),
    ):
        steps = ["vpn=none", "--seeds", "1", "--rerun", "--keep", "results/t.yml"]
        wanted = ["--measure", "a=(?:a|aa)+([0-9])$"]
        _, said = measured(tmp_path, *steps, *wanted, "--", "pc", line, code=1)
        assert words in said
        (tmp_path / "results/t.yml").unlink()


def test_a_nat_forgets_a_silent_tunnel(run_cells: RunCells) -> None:
    runs = run_cells(
        "idle", "vpn=wireguard", "vpn.keepalive=0,25", "vpn.setup=time", "nat_timeout_s=60",
        "silence_s=45,70", "patience_s=20", "noise=off",
    )  # fmt: skip
    found = {
        (run.row["vpn_values"].partition(";")[0], run.row["silence_s"]): run.row["answer_after_s"]
        for run in runs
    }
    assert found.pop(("keepalive=0", "70")) == ""
    assert len(found) == 3 and all(0.5 < float(one) < 0.51 for one in found.values())
    # A round trip for the handshake, and one for the ping.
    assert all(1 < float(run.row["setup_time_s"]) < 1.01 for run in runs)


def test_data_and_a_call_of_the_server_come_or_do_not(run_cells: RunCells) -> None:
    runs = run_cells(
        "idle", "vpn=wireguard", "vpn.keepalive=0", "speaker=data,call", "nat_timeout_s=60",
        "silence_s=45,70", "patience_s=20", "noise=off",
    )  # fmt: skip
    found = {(run.row["speaker"], run.row["silence_s"]): run.row["answer_after_s"] for run in runs}
    assert found["data", "70"] == found["call", "70"] == ""
    # A round trip for TCP's handshake, and one for the byte; one for the packet of voice.
    assert 1 < float(found["data", "45"]) < 1.01 and 0.5 < float(found["call", "45"]) < 0.51


def test_old_keys_cost_a_round_trip(run_cells: RunCells) -> None:
    runs = run_cells(
        "idle", "vpn=wireguard,nebula", "vpn.keepalive=0", "speaker=client", "nat_timeout_s=60",
        "silence_s=200", "noise=off",
    )  # fmt: skip
    after_s = {run.row["vpn"]: float(run.row["answer_after_s"]) for run in runs}
    assert 1 < after_s["wireguard"] < 1.01 and 0.5 < after_s["nebula"] < 0.51
