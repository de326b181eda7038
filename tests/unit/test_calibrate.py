# SPDX-License-Identifier: GPL-3.0-or-later
"""A profile of a CPU from what runs have measured: the answer is planted, and found."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openbach_run.catalog import Catalog
from openbach_run.commands.calibrate import as_text, check_vpns, lengths, main, seen_in_all
from openbach_run.errors import InputError
from openbach_run.results.cpu_times import Seen, line_of, seen_in, vpns_of
from openbach_run.results.record import Record
from openbach_run.results.store import Store

PLANTED = {"encrypt": (7000.0, 1.5), "decrypt": (5000.0, 2.5)}
SIZES, CHECK = (200, 1300), 700


def measured(noise: float, repetitions: int = 5, beyond: float = 0.0) -> list[Seen]:
    """With packets 28 bytes longer than their payload.

    What is checked costs `beyond` ns more than the line says.
    """
    chance = random.Random(1)
    return [
        Seen(
            "openvpn_udp",
            direction,
            size,
            repetition,
            size + 28,
            (packet + byte * (size + 28) + beyond * (size == CHECK))
            * (1 + noise * chance.random()),
        )
        for direction, (packet, byte) in PLANTED.items()
        for size in (*SIZES, CHECK)
        for repetition in range(repetitions)
    ]


def test_the_planted_costs_are_found() -> None:
    for direction, times in vpns_of(measured(0), CHECK)["openvpn_udp"].items():
        assert (times["ns_per_packet"], times["ns_per_byte"]) == pytest.approx(
            PLANTED[direction], abs=0.001
        )
        assert times["ns_per_packet_error"] == pytest.approx(0, abs=0.001)
        assert times["off_pct_at_700_bytes"] == pytest.approx(0, abs=0.01)


def test_with_noise_that_only_adds_they_are_found() -> None:
    for direction, times in vpns_of(measured(0.02, 15), CHECK)["openvpn_udp"].items():
        for name, planted in zip(("ns_per_packet", "ns_per_byte"), PLANTED[direction], strict=True):
            assert times[f"{name}_error"] > 0 and times[name] == pytest.approx(planted, rel=0.02)
        assert abs(times["off_pct_at_700_bytes"]) < 2


def test_a_length_that_is_not_on_the_line_is_told() -> None:
    times = vpns_of(measured(0, beyond=1000), CHECK)["openvpn_udp"]["encrypt"]
    assert times["off_pct_at_700_bytes"] == pytest.approx(
        -100 * 1000 / (7000 + 1.5 * 728 + 1000), abs=0.01
    )
    assert "-11.0 %" in as_text(vpns_of(measured(0, beyond=1000), CHECK), CHECK)


def test_one_repetition_has_no_error() -> None:
    times = vpns_of(measured(0.02, 1), CHECK)["openvpn_udp"]["encrypt"]
    assert not [name for name in times if name.endswith("_error")]


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(100, 30), (200, 40)], (20, 0.1)),
        ([(100, 40), (200, 30)], (35, 0)),
        ([(100, 10), (200, 30)], (0, (1000 + 6000) / (10_000 + 40_000))),
    ],
)
def test_no_coefficient_is_negative(
    points: list[tuple[float, float]], line: tuple[float, float]
) -> None:
    assert line_of(points) == pytest.approx(line)


def sent(job: str, agent: str, suffix: str = "", **values: float) -> dict[str, Any]:
    metadata = {
        "job_name": job,
        "agent_name": agent,
        "time": 1,
        **({"suffix": suffix} if suffix else {}),
    }
    return {**values, "_metadata": metadata}


def record(tmp_path: Path, lines: list[dict[str, Any]]) -> Record:
    (tmp_path / "statistics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = {"vpn": "nebula", "payload_bytes": "200"}
    return Record("id", "lan_udp", arguments, 3, "Finished Ok", None, 0, 0, "", {}, "", {}, ())


LINES = [
    sent("vpn", "satvpn_box_1", tx_packets=1000, tx_bytes=228_000, rx_packets=5, rx_bytes=500),
    sent(
        "vpn",
        "satvpn_box_2",
        tx_packets=5,
        tx_bytes=500,
        rx_packets=300,
        rx_bytes=900 * 200 + 300 * 28,
    ),
    sent("cpu_by_program", "satvpn_pc_1", "box_1", cpu_s=0.01),
    sent("cpu_by_program", "satvpn_pc_1", "box_1_nebula", cpu_s=0.009),
    sent("cpu_by_program", "satvpn_pc_1", "box_2", cpu_s=0.018),
]


def test_what_a_run_says(tmp_path: Path) -> None:
    """At the receiver three packets were handed over as one."""
    assert seen_in(record(tmp_path, LINES), tmp_path) == [
        Seen("nebula", "encrypt", 200, 3, 228, 10_000),
        Seen("nebula", "decrypt", 200, 3, 228, 20_000),
    ]


def test_a_run_that_says_too_little(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="says nothing of the CPU time of box_2"):
        seen_in(record(tmp_path, LINES[:-1]), tmp_path)
    none = [*LINES[:2], sent("cpu_by_program", "satvpn_pc_1", "box_1", cpu_s=0)]
    with pytest.raises(InputError, match="nebula: no program of box_1 took time for a packet"):
        seen_in(record(tmp_path, none), tmp_path)


def test_a_run_that_says_too_little_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path)
    records = [replace(record(tmp_path, LINES), run_id=name) for name in ("whole", "half")]
    for one, lines in zip(records, (LINES, LINES[:1]), strict=True):
        (store.runs / one.run_id).mkdir(parents=True)
        record(store.runs / one.run_id, lines)
    assert len(seen_in_all(records, store)) == 2
    assert "left out" in capsys.readouterr().err
    with pytest.raises(InputError, match="no run of nebula with 200 bytes of payload says"):
        seen_in_all(records[1:], store)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine/x"], "is no name of a file"),
        (["x", "--payload-bytes", "200"], "at least two lengths"),
        (["x", "--payload-bytes", "200,many"], "should be numbers of bytes"),
        (["x", "--check-bytes", "1300"], "a length that is not among --payload-bytes"),
        (["x", "--repetitions", "0"], "--repetitions 0: at least 1"),
        (["x", "--vpn", "wireguard"], "the kernel carries its packets"),
        (["x", "--vpn", "wiregard"], "there is no such VPN"),
        (
            ["x", "--payload-bytes", "200,1450"],
            "openvpn_udp: packets have at most 1420 bytes of payload",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        main([*arguments, "-o", str(tmp_path)])


def test_a_profile_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "cpus").mkdir()
    (tmp_path / "cpus/x.json").write_text("{}")
    with pytest.raises(InputError, match="is there already"):
        main(["x", "-o", str(tmp_path)])


def test_the_defaults_are_accepted() -> None:
    assert lengths("200,1300", 700) == [200, 1300]
    check_vpns(["openvpn_udp", "vpncloud_aes128"], [200, 1300, 700], Catalog())
