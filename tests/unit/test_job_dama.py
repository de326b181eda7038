# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of a return link that has to be asked for: read, checked, and told to the kernel."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from helpers.job_code import load
from helpers.waiting import HANG_S

from openbach_jobs import dama, presets
from openbach_run.commands import main

qdisc = load("satcom_link", "dama_qdisc")
satcom_link = load("satcom_link")
satpep = load("satpep")
ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel/modules/dama"
RCS2 = ("geo_rcs2", "geo_rcs2_opensand", "geo_rcs2_sns3")


def access(orbit: str = "geo_rcs2", **given: str) -> Any:
    preset = presets.find(orbit)
    text = ";".join(f"{name}={value}" for name, value in given.items()) or "none"
    texts = presets.in_force({"dama_values": text}, preset)
    return presets.access_of(texts, preset)


def test_opensands_band_has_its_number_of_slots() -> None:
    """48 MHz with a roll-off of 0.2: 40 Msymbol/s, 1977 bursts of 536 symbols in 26.5 ms."""
    one = access("geo_rcs2_opensand")
    assert one.slots == 1977
    assert one.superframes("request_period_ms") == 38
    assert one.superframes("request_rtt_ms") == 23


def test_seeds_begin_at_five_phases_of_the_cycle_of_requests() -> None:
    """38 superframes of 26.5 ms: a transfer of CUBIC takes 6 or 11 s by its phase."""
    phases_s = [access("geo_rcs2_opensand").phase_s(seed) for seed in range(1, 7)]
    assert phases_s == pytest.approx([0, 0.2014, 0.4028, 0.6042, 0.8056, 0])


@pytest.mark.parametrize("orbit", RCS2)
def test_the_kernel_knows_every_value_that_it_is_told(orbit: str) -> None:
    queue = {"queue_bytes": 10_000, "queue_packets": 100}
    line = access(orbit).line(250, 3, queue, 7, 5)
    told = [word.partition("=")[0] for word in line.split()]
    known = re.findall(r"\sVALUE\((\w+)\),", (KERNEL / "core.c").read_text())
    assert sorted(told) == sorted(known)
    assert all(word.partition("=")[2].isdecimal() for word in line.split())


def test_numbers_of_the_names_are_those_of_the_kernel() -> None:
    text = (KERNEL / "core.h").read_text()
    for names, begin in ((dama.ALGORITHMS, "algorithm"), (dama.RANDOM_ACCESS, "random_access")):
        (body,) = re.findall(rf"enum dama_{begin} {{(.*?)}};", text, re.DOTALL)
        found = [one.lower() for one in re.findall(r"DAMA_(\w+)", body)]
        assert tuple(found[:-1]) == names


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"waveform": "2"}, "dama.waveform: '2' is none of the waveforms 3 to 22"),
        ({"waveform": 5000 * "3"}, "3' is none of the waveforms 3 to 22"),
        ({"superframe_ms": "0"}, "dama.superframe_ms: '0' is not a duration in ms from 1 to 1000"),
        ({"algorithm": "best"}, "dama.algorithm: 'best' is none of opensand, opensand_8_2, sns3"),
        ({"vbdc_bytes": "1.5"}, "dama.vbdc_bytes: '1.5' is not a number of bytes: it has to be"),
        ({"cra": "0", "rbdc": "0"}, "one of dama.cra, dama.rbdc, dama.vbdc_bytes and dama.fca"),
        ({"cra": "40M"}, "dama.cra=40M of 1 terminals is more than the"),
        ({"simulated": "400"}, "dama.cra=100k of 401 terminals is more than"),
        ({"symbols": "1000"}, "dama.symbols=1000 makes 0 bursts of a superframe"),
        ({"ra_slots": "5"}, "dama.ra_slots has no effect with dama.random_access=dedicated"),
        ({"simulated_rate": "5"}, "dama.simulated_rate has no effect with dama.simulated=0"),
        ({"algorithm": "sns3", "rbdc": "50k"}, "dama.rbdc=50k: by sns3 it includes dama.cra=100k"),
        ({"superframe_ms": "1", "request_rtt_ms": "600"}, "600 ms are too many superframes"),
        ({"speed": "5"}, "dama.speed: there is no such value; there are algorithm, superframe_ms"),
        ({"random_access": "crdsa", "ra_slots": "2"}, "dama.ra_replicas is above dama.ra_slots"),
        (
            {"random_access": "aloha", "ra_replicas": "2"},
            "dama.ra_replicas has no effect with dama.random_access=aloha",
        ),
    ],
)
def test_what_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        access(**given)


def test_an_assigned_rate_takes_the_place_of_what_is_asked_for() -> None:
    texts = presets.in_force({"access": "assigned"}, presets.find("geo_rcs2"))
    assert (texts["return_rate"], texts["dama_values"]) == ("5M", "none")
    assert presets.in_force({}, presets.find("geo_rcs2"))["return_rate"] == "none"


def test_what_the_kernel_shows_is_read() -> None:
    text = (
        "strangers 0\nsuperframes 10\nmost_slots 7\nterminal 0 5 4 100 8 2 50 3 0\n"
        "class 0 BE 4 200 2 100 1 50 0 0 1 50 900 1900\nsimulated 9 8 7 6 5 4 3 2\n"
    )
    shown = qdisc.shown(text)
    assert shown.most_slots == 7
    assert shown.terminals["0"].granted_slots == 5
    assert shown.terminals["simulated"].collisions == 2
    assert shown.classes["0", "BE"].p95_us == 1900


def test_terminals_are_the_gateways_of_the_routes() -> None:
    routes = (
        "Iface Destination Gateway\nto_st 0001A8C0 02020A0A 0003\nto_st 0002A8C0 03020A0A 0003\n"
        "to_st 00020A0A 00000000 0001\nto_gw 00000000 02030A0A 0003\n"
    )
    assert qdisc.terminals_beyond("to_st", routes) == 2
    assert qdisc.terminals_beyond("other", routes) == 1


SHARES = "10.10.2.2:cra=50k;rbdc=2M/10.10.2.3:/10.10.2.4:weight=3;vbdc_bytes=9000"


def test_a_share_has_the_link_s_values_where_it_has_none_of_its_own() -> None:
    found = access().shares(SHARES)
    assert found == {
        "10.10.2.2": dama.Share(50_000, 2_000_000, 0, 1),
        "10.10.2.3": dama.Share(100_000, 5_120_000, 0, 1),
        "10.10.2.4": dama.Share(100_000, 5_120_000, 9000, 3),
    }
    assert access().shares("none") == {}
    line = found["10.10.2.4"].line(2, "02:00:00:00:01:00")
    assert line == (
        f"terminal 2 address={2 * 256**5 + 256} cra_bps=100000 rbdc_bps=5120000 vbdc_bytes=9000"
        " weight=3"
    )


def test_the_kernel_knows_the_values_of_a_share() -> None:
    known = re.findall(r"SHARE\((\w+)\)[, ]", (KERNEL / "core.c").read_text())
    assert list(dama.Share._fields) == [name for name in known if name != "name"]


@pytest.mark.parametrize(
    ("text", "orbit", "said"),
    [
        ("10.0.0.2", "geo_rcs2", "shares: '10.0.0.2' is not like 10.0.0.2:cra=50k"),
        ("10.0.0.2:/10.0.0.2:", "geo_rcs2", "each address once"),
        ("10.0.0.2:cra=fast", "geo_rcs2", "shares: 10.0.0.2: cra: 'fast' is not a rate in bit/s"),
        ("10.0.0.2:weight=0", "geo_rcs2", "weight: '0' is not a weight from 1 to 1000"),
        ("10.0.0.2:fca=1k", "geo_rcs2", "fca: a share has cra, rbdc, vbdc_bytes, weight"),
        ("10.0.0.2:cra=0;rbdc=0", "geo_rcs2", "one of cra, rbdc and vbdc_bytes is above 0"),
        ("10.0.0.2:cra=30M/10.0.0.3:cra=30M", "geo_rcs2", "the cra of 2 terminals and 0 simulated"),
        ("10.0.0.2:rbdc=50k", "geo_rcs2_sns3", "by sns3 rbdc includes cra"),
    ],
)
def test_a_share_that_cannot_be_is_refused(text: str, orbit: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        presets.in_force({"shares": text}, presets.find(orbit))


def star_with(place: Path, **shares: str) -> Path:
    """The star with shares of its terminals st_1 to st_3."""
    text = (ROOT / "library/topologies/star.yml").read_text()
    for name, share in shares.items():
        host = f"        satvpn_{name}:\n"
        text = text.replace(host, f"{host}          satvpn_share: {{{share}}}\n")
    (place / "star.yml").write_text(text)
    scenario = place / "star.json"
    scenario.write_text((ROOT / "library/topologies/star.json").read_text())
    return scenario


@pytest.mark.parametrize(
    ("shares", "values", "said"),
    [
        ({"st_1": "cra: 30M", "st_2": "cra: 30M"}, ["orbit=geo_rcs2"], "the cra of 3 terminals"),
        ({"st_1": "rbcd: 1M"}, [], "st_1.satvpn_share: rbcd: a share has cra, rbdc, vbdc_bytes"),
        ({"st_1": "weight: 1.5"}, [], "satvpn_share: weight: '1.5' is not a weight: it has to be"),
        ({"pc_1": "cra: 1M"}, [], "satvpn_pc_1 has a satvpn_share in the inventory, which would"),
    ],
)
def test_a_share_of_an_inventory_is_checked_before_a_guest_starts(
    shares: dict[str, str],
    values: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main.main([str(star_with(tmp_path, **shares)), *values, "--dry-run"]) == 2
    assert said in capsys.readouterr().err


def test_shares_are_shown_or_said_to_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = str(star_with(tmp_path, st_1="cra: 64k, weight: 2"))
    assert main.main([scenario, "orbit=geo_rcs2", "--dry-run"]) == 0
    shown = "".join(capsys.readouterr())
    assert "terminals with a share of their own: 10.10.2.2 cra=64k;weight=2" in shown
    assert main.main([scenario, "--dry-run"]) == 0
    shown = "".join(capsys.readouterr())
    assert "with access=assigned the inventory's shares of terminals have no effect" in shown


# A proxy that asks


def event(kind: str, number: int, client: str = "192.168.10.2:4000") -> dict[str, Any]:
    return {"event": kind, "id": number, "client": client}


def test_a_pep_asks_from_the_first_connection_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as there:
        there.bind(("127.0.0.1", 0))
        there.settimeout(HANG_S)
        monkeypatch.setattr(satpep, "ASK_PORT", there.getsockname()[1])
        wish = satpep.Wish("2M@127.0.0.1")
        proof = event("connected", 1, f"{satpep.proof.CLIENT}:5")
        for one in (proof, event("connected", 2), event("connected", 3), event("ended", 2)):
            wish.take(one)
        assert there.recv(64) == b"2000000"
        wish.take(event("full", 0))
        wish.take(event("ended", 9))  # it was never connected
        wish.take(event("ended", 3))
        assert there.recv(64) == b"0"
        there.setblocking(False)
        with pytest.raises(BlockingIOError):
            there.recv(64)


def test_a_pep_that_is_to_ask_for_nothing_says_nothing() -> None:
    assert satpep.wish_of("none") is None and satpep.wish_of("none@10.10.2.2") is None
    assert satpep.wish_of("500k@10.10.2.2") == (500_000, "10.10.2.2")
    satpep.Wish("none@10.10.2.2").take(event("connected", 2))


@pytest.mark.parametrize("ask", ["2M", "fast@10.10.2.2", "2M@sat", "-1@10.10.2.2"])
def test_whom_a_pep_asks_for_what_is_checked(ask: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        satpep.parse(["B_double", "run", f"--ask={ask}"])
    assert "is not like 2M@10.10.2.2" in capsys.readouterr().err


def test_pepsal_cannot_ask(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        satpep.parse(["B_double", "run", "--program=pepsal", "--ask=2M@10.10.2.2"])
    assert "--ask needs satpep" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["pep=B"], "no PEP is at the terminal"),
        (["pep=B_double", "access=assigned"], "nothing is asked for"),
    ],
)
def test_a_wish_without_effect_is_said(
    values: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["rcs2", "vpn=none", "dama_values=none", "pep_ask=2M", *values, "--dry-run"]
    assert main.main(words) == 0
    assert said in "".join(capsys.readouterr())
