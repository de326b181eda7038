# SPDX-License-Identifier: GPL-3.0-or-later
"""A forward link in frames, in the guest: the checks of docs/method/forward-link.md.

tests/unit/test_dvbs2.py has those that need no guest.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.guest_runs import REPOSITORY, Run, command, records
from helpers.job_code import load
from helpers.scenario_with import TEST_JOBS, Job, ran, scenario_of, with_snapshot
from helpers.scenario_with import sent_of as told

from openbach_jobs import dvbs2
from openbach_jobs.dvbs2 import SLUGS

dvbs2_qdisc = load("satcom_link", "dvbs2_qdisc")

LINK = {"orbit": "geo_dvbs2", "forward_interface": "to_st", "return_interface": "to_gw"}
GW, ST = "10.10.3.2", "10.10.2.1"
UP_S = 6
"""After this time the link has measured itself."""
TIME = re.compile(r"time=([\d.]+) ms")
SYMBOLS, D_MS, LABEL = 10_000_000, 250, 3
LOOK = "cat /proc/net/dvbs2"


def run_link(place: Path, values: str, *commands: tuple[str, str]) -> Run:
    """The link alone, and commands on hosts beside it; the last one ends the run."""
    link = {**LINK, "forward_values": values, "buffer": "30MB", "run": {}}
    jobs = [Job("sat", "satcom_link", link)]
    for host, shell_command in commands:
        text = f"sleep {UP_S}; {shell_command}"
        jobs.append(Job(host, "snapshot", {"command": text}, launched=[0]))
    return ran(scenario_of(place, *jobs), place / "r")


def sending(count: int, every_s: float, times: int, to: str = ST) -> str:
    """A command that sends full packets of UDP, so many at once, so many times."""
    return (
        'python3 -c "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);'
        f" [([s.sendto(b'.' * 1472, ('{to}', 9)) for n in range({count})], time.sleep({every_s}))"
        f' for m in range({times})]"'
    )


def printed(run: Run) -> str:
    """What the commands have printed; those that send packets print nothing."""
    return "".join(line["printed"] for line in run.statistics("snapshot"))


@pytest.mark.parametrize("name", ["qpsk_1_4", "8psk_3_4", "32apsk_9_10"])
def test_a_ping_takes_one_frame_and_the_satellites_delay(tmp_path: Path, name: str) -> None:
    """On an empty link: RTT = 2 D + frame, and 0.1 ms for its burst on the return link."""
    values = f"modcod={name};es_n0_db=20"
    run = run_link(tmp_path, values, ("st", f"ping -n -s 16 -i 0.28313 -c 50 {GW}"))
    found = [float(one) for one in TIME.findall(printed(run))]
    frame_ms = 1000 * SLUGS[name].frame_symbols / SYMBOLS
    return_ms = 58 * 8 / 5e6 * 1000
    print(f"RTT {min(found)} to {max(found)}, frame {frame_ms:.3f} ms")
    assert len(found) == 50
    # ping rounds to 1 ms.
    assert found == pytest.approx([2 * D_MS + frame_ms + return_ms] * 50, abs=0.6)
    delay_ms = told(run, "forward_terminal_0_BE")["frame_delay_p95_ms"]
    assert delay_ms == pytest.approx(frame_ms, rel=0.02)


def window(place: Path, values: str, *commands: tuple[str, str]) -> tuple[Any, Any]:
    """The counters of the forward link at two times, 2 s from each other, while it is full."""
    look = f"sleep 1; {LOOK}; sleep 2; echo then; {LOOK}"
    run = run_link(place, values, *commands, ("sat", look))
    begin, end = printed(run).split("then\n")
    return dvbs2_qdisc.shown(begin), dvbs2_qdisc.shown(end)


def gse_share(frame_bytes: int, length: int) -> float:
    """The share of a frame that packets get of one after another: one is cut in each frame."""
    whole, cut = dvbs2.WHOLE_BYTES + LABEL, dvbs2.START_BYTES + LABEL + dvbs2.END_BYTES
    return (frame_bytes - (cut - whole)) / (length + whole) * length / frame_bytes


@pytest.mark.parametrize("name", ["qpsk_1_2", "8psk_3_4", "16apsk_3_4", "32apsk_9_10"])
def test_goodput_is_symbol_rate_times_efficiency(tmp_path: Path, name: str) -> None:
    """Within 1 %; of the formula with the headers of GSE within 0.2 %."""
    values = f"modcod={name};es_n0_db=20"
    before, after = window(tmp_path, values, ("gw", sending(14_000, 3, 1)))
    key = ("0", "BE")
    goodput_bps = 8 * (after.classes[key].bytes_out - before.classes[key].bytes_out) / 2
    modcod = SLUGS[name]
    ceiling_bps = SYMBOLS * modcod.efficiency
    print(f"{name}: {goodput_bps / 1e6:.3f} Mbit/s, ceiling {ceiling_bps / 1e6:.3f}")
    assert after.classes[key].bytes_queued > 0
    assert goodput_bps == pytest.approx(ceiling_bps * gse_share(modcod.frame_bytes, 1500), rel=2e-3)
    assert 0.99 * ceiling_bps < goodput_bps < ceiling_bps


def test_a_high_class_goes_first(tmp_path: Path) -> None:
    """Pings of class EF (DSCP 46) over a full link wait for two frames at most."""
    values = "modcod=qpsk_1_2;es_n0_db=20"
    ping = f"ping -n -Q 184 -s 16 -i 0.1 -c 20 {ST}"
    run = run_link(tmp_path, values, ("gw", sending(8000, 3, 1)), ("gw", f"sleep 1; {ping}"))
    found = [float(one) for one in TIME.findall(printed(run))]
    frame_ms = 1000 * SLUGS["qpsk_1_2"].frame_symbols / SYMBOLS
    print(f"RTT {min(found)} to {max(found)}, frame {frame_ms:.3f} ms")
    assert len(found) == 20
    assert min(found) >= 2 * D_MS + frame_ms - 0.6
    assert max(found) <= 2 * D_MS + 2 * frame_ms + 0.6
    assert told(run, "forward_terminal_0_EF")["class_packets"] == 20


def star(place: Path, *words: str) -> Run:
    """Three PCs download, each behind a terminal of its own."""
    ended = command(
        "library/topologies/star.json", "orbit=geo_dvbs2", "rate=preset", "cc=bbr2", "loss=0", *words,
        "--seeds", "1", "--results", str(place / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (run,) = records(place / "r")
    return run


def test_a_faded_terminal_takes_air_time_from_the_clear_ones(tmp_path: Path) -> None:
    """More is sent to each of three than the link carries: all get the same, by the formula.

    Their air time is as 1/efficiency.
    """
    star_file = REPOSITORY / "library/topologies/star.json"
    scenario = json.loads(star_file.read_text())
    functions = scenario["openbach_functions"]
    commands = [("gw", f"{sending(100, 0.01, 600, f'10.10.2.{n}')}") for n in (2, 3, 4)]
    commands.append(("sat", f"sleep 2; {LOOK}; sleep 4; echo then; {LOOK}; sleep 3"))
    for host, text in commands:
        functions.append(
            {
                "id": len(functions),
                "wait": {"time": 0, "launched_ids": [], "finished_ids": [1]},
                "start_job_instance": {
                    "entity_name": f"satvpn_{host}",
                    "snapshot": {"command": text},
                },
            }
        )
    (down,) = [one for one in functions if "stop_job_instances" in one]
    down["wait"]["finished_ids"] += [one["id"] for one in functions[-len(commands) :]]
    scenario["x-inventory"]["file"] = str(REPOSITORY / "library/topologies/star.yml")
    (tmp_path / "star.json").write_text(json.dumps(scenario))
    run = ran(
        tmp_path / "star.json", tmp_path / "r", "orbit=geo_dvbs2", "rate=preset", "cc=cubic", "loss=0",
        "size=1k", "forward.es_n0_db=2/14.5", "--seeds", "1",
    )  # fmt: skip
    before, after = map(dvbs2_qdisc.shown, printed(run).split("then\n"))
    faded, clear = dvbs2.best(1.5), dvbs2.best(14)
    assert faded and clear
    bps = [
        8 * (after.classes[str(n), "BE"].bytes_out - before.classes[str(n), "BE"].bytes_out) / 4
        for n in range(3)
    ]
    rates = [SYMBOLS * one.efficiency * gse_share(one.frame_bytes, 1500) for one in (faded, clear)]
    each_bps = 1 / (1 / rates[0] + 2 / rates[1])
    air_s = {
        one: (after.modcods[one.slug].frames - before.modcods[one.slug].frames)
        * one.frame_symbols
        / SYMBOLS
        for one in (faded, clear)
    }
    print(f"{[round(one / 1e6, 3) for one in bps]} Mbit/s, formula {each_bps / 1e6:.3f}")
    print(f"{air_s[faded] / 4:.3f} of the air for the faded one, {each_bps / rates[0]:.3f}")
    assert bps == pytest.approx([each_bps] * 3, rel=0.01)
    assert air_s[faded] / 4 == pytest.approx(each_bps / rates[0], rel=0.01)
    assert air_s[faded] + air_s[clear] == pytest.approx(4, abs=0.01)


def series(place: Path, *rows: str) -> Path:
    file = place / "es_n0.csv"
    file.write_text("\n".join(["time_s,terminal,es_n0_db", *rows, ""]))
    return file


def test_a_fade_loses_the_frames_of_the_loops_delay(tmp_path: Path) -> None:
    """The link is full when the terminal falls to 4 dB: it loses each frame of 1 s, and no other."""
    fade = series(tmp_path, "30,0,4")
    scenario = with_snapshot(tmp_path, ("gw", 15, sending(100, 0.02, 1250)))
    run = ran(
        scenario, tmp_path / "r", "orbit=geo_dvbs2", "vpn=none", "pep=none", "cc=cubic", "loss=0",
        "size=unlimited", "duration_s=50", f"es_n0_file={fade}", "buffer=2MB", "--seeds", "1",
    )  # fmt: skip
    clear, robust = dvbs2.best(14), dvbs2.best(3.5)
    assert clear and robust
    lost = told(run, f"forward_{clear.slug}")["lost_frames"]
    print(f"{lost} frames lost, formula {SYMBOLS / clear.frame_symbols:.1f}")
    assert lost == pytest.approx(SYMBOLS / clear.frame_symbols, abs=2)
    assert told(run, "forward_terminal_0")["lost_frames"] == lost
    assert told(run, f"forward_{robust.slug}")["lost_frames"] == 0
    in_frames = lost * clear.frame_bytes * gse_share(clear.frame_bytes, 1500)
    assert told(run, "forward_terminal_0")["lost_bytes"] == pytest.approx(in_frames, rel=0.02)


def test_the_same_series_makes_the_same_packets(tmp_path: Path) -> None:
    """Of one terminal in three that fades and recovers, whatever happens beside it."""
    rows = ["6,1,5", "9,1,14.5"]
    hashes = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        fade = series(tmp_path / name, *rows)
        run = star(tmp_path / name, "size=5M", f"es_n0_file={fade}")
        hashes.append(run.row["capture_hash"])
        assert int(run.row["forward_terminal_1_lost_frames"]) > 0
        assert int(run.row["forward_terminal_0_lost_frames"]) == 0
    assert hashes[0] == hashes[1]


def test_both_links_of_a_system(tmp_path: Path) -> None:
    """Frames forward, and a return link that has to be asked for."""
    ended = command(
        "library/topologies/star.json", "orbit=geo_dvbs2_rcs2", "rate=preset", "cc=cubic", "loss=0",
        "size=1M", "forward.es_n0_db=14.5/2", "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    (run,) = records(tmp_path / "r")
    assert int(run.row["forward_terminal_2_frames"]) > 100
    assert int(run.row["terminal_2_requests"]) > 0


def test_a_packet_for_no_terminal_ends_the_run(tmp_path: Path) -> None:
    """It would have passed without a frame, so the figures would be wrong."""
    link = {**LINK, "run": {}}
    stray = (
        f"sleep {UP_S}; ip route add 10.10.2.99 via 10.10.3.1 && ping -c 1 -W 1 10.10.2.99; true"
    )
    jobs = [
        Job("sat", "satcom_link", link),
        Job("gw", "snapshot", {"command": stray}, launched=[0]),
    ]
    where = ("--jobs", str(TEST_JOBS), "--results", str(tmp_path / "r"))
    ended = command(str(scenario_of(tmp_path, *jobs)), *where)
    assert ended.returncode == 1
    assert "packets of the forward link were for none of 10.10.2.1" in ended.stderr + ended.stdout


def test_values_of_more_terminals_than_there_are_are_refused(tmp_path: Path) -> None:
    ended = command(
        "geo", "orbit=geo_dvbs2", "vpn=none", "cc=cubic", "size=100k", "forward.es_n0_db=14/2",
        "--seeds", "1", "--results", str(tmp_path / "r"),
    )  # fmt: skip
    assert ended.returncode == 2
    assert "forward.es_n0_db is of 2 terminals, and there is 1" in ended.stderr
