# SPDX-License-Identifier: GPL-3.0-or-later
"""What satcom_link and transport_profile tell tc and ip."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import control_lists
import pytest
from helpers.job_code import load
from hypothesis import given
from hypothesis import strategies as st

satcom_link = load("satcom_link", "satcom_link")
netem = importlib.import_module("openbach_jobs.netem")
link_proof = load("satcom_link", "link_proof")
link_qdiscs = load("satcom_link", "link_qdiscs")
State = importlib.import_module("openbach_jobs.link_file").State
transport_profile = load("transport_profile", "transport_profile")
profiles = importlib.import_module("openbach_jobs.profiles")
install_modules = load("transport_profile", "install_modules")
file_transfer = load("file_transfer", "file_transfer")


@pytest.fixture(autouse=True)
def no_run_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBACH_RUN_SEED", raising=False)


GEO, LEO = ("geo", "to_st", "to_gw"), ("leo", "to_st", "to_gw")
IDLE = State(10e6, 250.0, 0.0)


def parsed(*options: str) -> Any:
    return satcom_link.parse([*options, "run"])


def delay_lines(*options: str, state: Any = IDLE, step: int = 1) -> list[str]:
    arguments = parsed(*options)
    return [
        link_qdiscs.delay_line(one, arguments, state, step)
        for one in satcom_link.directions(arguments)
    ]


def loss_lines(*options: str) -> list[str]:
    arguments = parsed(*options)
    return [link_qdiscs.loss_line(one, arguments) for one in satcom_link.directions(arguments)]


@pytest.mark.parametrize(
    ("options", "least_mtu", "rules"),
    [
        ([], 1500, []),
        ([], 1492, ["ipv4 … 1452", "ipv6 … 1432"]),
        (["--mss-clamp", "none"], 1492, []),
        (["--fragments", "drop"], 1500, ["0x3fff", "frag exists", "length > 1500"]),
        (["--icmp-too-big", "drop", "--mss-clamp", "none"], 1400, ["frag-needed", "too-big"]),
    ],
)
def test_the_path_clamps_or_drops_what_it_is_told_to(
    options: list[str], least_mtu: int, rules: list[str]
) -> None:
    """At commit 33a89e92 no path clamped segments, or dropped fragments (F2, F3)."""
    found = link_qdiscs.forwarding_rules(parsed(*GEO, *options), least_mtu)
    assert len(found) == len(rules)
    for rule, words in zip(found, rules, strict=True):
        assert all(word in rule for word in words.split(" … "))


@pytest.mark.parametrize(
    ("path_mtus", "least_mtu"),
    [
        ("inventory", 1500),
        ("1492/1400,inventory/9000", 1492),
        ("inventory/1280,1492", 1280),
        ("9000/1400", 1500),
    ],
)
def test_the_smallest_network_counts_as_told_or_as_the_inventory_has_it(
    monkeypatch: pytest.MonkeyPatch, path_mtus: str, least_mtu: int
) -> None:
    monkeypatch.setattr(link_qdiscs, "interface_mtu", lambda name: 1500)
    arguments = parsed(*GEO, "--path-mtus", path_mtus)
    assert link_qdiscs.least_mtu(satcom_link.directions(arguments), arguments) == least_mtu


def test_a_geo_link_without_loss_or_seed_is_a_delay() -> None:
    forward, back = delay_lines(*GEO)
    assert forward == "dev to_st root handle 2: netem limit 100000 delay 250000us"
    assert back == "dev to_gw root handle 2: netem limit 100000 delay 250000us"


def test_losses_are_in_a_netem_of_their_own_seeded_by_the_run_and_the_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBACH_RUN_SEED", "7")
    forward, back = loss_lines(*GEO, "--loss", "0.1")
    mixed = netem.mixed
    assert (
        forward
        == f"dev to_st root handle 1: netem limit 100000 loss random 0.1% seed {mixed(mixed(14))}"
    )
    assert (
        back
        == f"dev to_gw root handle 1: netem limit 100000 loss random 0.1% seed {mixed(mixed(15))}"
    )
    assert all(" parent 1:1 handle 2: " in line for line in delay_lines(*GEO, "--loss", "0.1"))


def test_the_option_seed_goes_before_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBACH_RUN_SEED", "7")
    given = loss_lines(*GEO, "--loss", "1", "--seed", "1")[0]
    monkeypatch.setenv("OPENBACH_RUN_SEED", "1")
    assert given == loss_lines(*GEO, "--loss", "1")[0]


def test_mixing_is_splitmix64() -> None:
    """First output of the reference implementation (Vigna, splitmix64.c) for the state 0."""
    assert netem.mixed(0) == 0xE220A8397B1DCDAF


def test_a_changing_link_keeps_packets_in_order_and_never_repeats_a_seed() -> None:
    arguments = parsed(*LEO, "--seed", "1")
    both = satcom_link.directions(arguments)
    lines = [
        link_qdiscs.delay_line(one, arguments, IDLE, step) for step in range(1000) for one in both
    ]
    assert all(" rate 10gbit " in line for line in lines)
    seeds = {int(line.split()[-1]) for line in lines}
    assert len(seeds) == len(lines)
    assert max(seeds) < 2**64


def test_jitter_keeps_the_order_unless_it_may_not() -> None:
    assert (
        " delay 250000us 2000us distribution normal rate 10gbit"
        in delay_lines(*GEO, "--jitter-ms", "2")[0]
    )
    assert "rate" not in delay_lines(*GEO, "--jitter-ms", "2", "--reorder", "yes")[0]


def test_losses_of_the_last_mile_are_not_the_satellites() -> None:
    assert parsed(*GEO, "--loss", "1", "--loss-at", "last_mile").loss == 0


def test_an_outage_of_a_link_file_holds_packets_or_loses_them() -> None:
    forward, _ = satcom_link.directions(parsed(*GEO))
    assert " tbf rate 8bit " in link_qdiscs.rate_line(forward, State(0.0, 250.0, 0.0), 3028)
    assert " loss random 100%" in delay_lines(*GEO, state=State(10e6, 250.0, 100.0))[0]


@given(st.floats(0.001, 50), st.floats(1, 100))
def test_gilberts_model_has_the_loss_and_the_bursts_asked_for(
    loss_pct: float, burst_packets: float
) -> None:
    """Share p/(p+r) of lost packets, mean burst 1/r."""
    words = netem.loss_model(loss_pct, burst_packets).split()
    if burst_packets == 1:
        assert words == ["loss", "random", f"{loss_pct:g}%"]
        return
    enter, leave = (float(word[:-1]) / 100 for word in words[2:])
    assert enter / (enter + leave) == pytest.approx(loss_pct / 100, rel=0.01)
    assert 1 / leave == pytest.approx(burst_packets, rel=0.01)


@pytest.mark.parametrize(
    ("options", "forward", "back"),
    [
        ((), 625_000, 625_000),
        (("--buffer-bdp", "0.5"), 312_500, 312_500),
        (("--buffer-bytes", "9000"), 9000, 9000),
        (("--rate", "20M", "--return-rate", "2M"), 1_250_000, 125_000),
        (("--rate", "32k", "--delay-ms", "1"), 3028, 3028),
        (("--buffer", "150kB"), 150_000, 150_000),
        (("--buffer", "100p"), 151_400, 151_400),
        (("--buffer", "2BDP"), 1_250_000, 1_250_000),
    ],
)
def test_the_buffer_is_in_bdp_of_its_direction_in_bytes_or_in_packets(
    options: tuple[str, ...], forward: int, back: int
) -> None:
    arguments = parsed(*GEO, *options)
    both = satcom_link.directions(arguments)
    assert [link_qdiscs.buffer_bytes(one, arguments.buffer) for one in both] == [forward, back]


@pytest.mark.parametrize("changes", [0, 2])
def test_tc_is_told_each_change_of_a_link_when_it_is_due(
    monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    told: list[str] = []

    def stop_after_the_last() -> None:
        if len(told) == changes:
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    def run(program: str, lines: list[str]) -> None:
        told.extend(f"{program} {line}" for line in lines)
        stop_after_the_last()

    monkeypatch.setattr(link_qdiscs, "run", run)
    arguments = parsed(*GEO, "--seed", "1")
    both = satcom_link.directions(arguments)
    change = importlib.import_module("openbach_jobs.link_file").Change
    played = [
        *(change(0.0, "forward", IDLE._replace(delay_ms=300.0 + n)) for n in range(changes)),
        change(1000.0, "forward", IDLE),
    ]
    player = link_qdiscs.Player(both, arguments, {one.name: IDLE for one in both})
    before = signal.pthread_sigmask(signal.SIG_BLOCK, satcom_link.SIGNALS)
    try:
        stop_after_the_last()
        satcom_link.play(player, iter(played), both, 0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert [line.partition(" handle")[0] for line in told] == [
        f"tc qdisc change dev {both[0].leaves} root"
    ] * changes
    assert len({line.rpartition(" seed ")[2] for line in told}) == changes, "seeds of their own"


def test_a_link_begins_at_a_time_of_its_file_that_follows_from_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("time_s,rate_bps,delay_ms\n0,1e6,20\n300,2e6,20\n")

    def start_s(*options: str) -> float:
        return float(satcom_link.start_of(parsed(*GEO, "--link-file", str(file), *options)))

    drawn = [start_s("--seed", str(seed)) for seed in range(100)]
    assert len({*drawn}) == 100 and 0 <= min(drawn) < 10 and 290 < max(drawn) < 300
    assert drawn[7] == start_s("--seed", "7", "--link-start", "seed")
    assert (start_s("--link-start", "0"), start_s("--link-start", "17.5")) == (0, 17.5)
    with pytest.raises(ValueError, match=r"link_start is 300 s, and the file lasts 300 s"):
        start_s("--link-start", "300")
    file.write_text("time_s,rate_bps,delay_ms\n0,1e6,20\n12.5,0,20\n")
    assert start_s("--seed", "7") == 0, "what happens when is said by a short file"


def test_a_link_of_rates_has_the_delay_of_its_satellite(tmp_path: Path) -> None:
    file = tmp_path / "rates.csv"
    file.write_text("time_s,rate_bps\n0,1e6\n1,2e6\n")
    arguments = parsed(*GEO, "--link-file", str(file))
    arguments.link_start_s = 0.0
    played = [(one.time_s, *one.state) for one in satcom_link.changes(arguments)]
    assert played == [(0, 1e6, 250, 0)] * 2 + [(1, 2e6, 250, 0)] * 2
    assert {one.rtt_ms for one in satcom_link.directions(arguments)} == {500}


def test_queues_know_the_rtt_and_the_buffer() -> None:
    of_bytes, of_packets = link_qdiscs.Buffer(625_000, "bytes"), link_qdiscs.Buffer(100, "packets")
    options = link_qdiscs.queue_options
    assert (
        options("codel", of_bytes, 625_000, 500)
        == "codel limit 413 target 25.000ms interval 500.000ms noecn"
    )
    assert options("fq_codel", of_bytes, 62_500, 50).endswith(
        "target 5.000ms interval 100.000ms noecn"
    )
    assert options("cake", of_bytes, 625_000, 500) == "cake unlimited memlimit 625000 rtt 500ms"
    assert options("fifo", of_bytes, 625_000, 500) == "bfifo limit 625000"
    assert options("fifo", of_packets, 151_400, 500) == "pfifo limit 100"
    assert options("codel", of_packets, 151_400, 500).startswith("codel limit 100 ")


def test_openbachs_own_link_has_loss_and_delay_before_the_rate() -> None:
    """With the handles of htb, and an outage behind it where the link has any."""
    arguments = parsed(*GEO, "--queue", "netem", "--buffer", "10000p", "--loss", "1", "--seed", "1")
    forward, _ = satcom_link.directions(arguments)
    place = f"dev {forward.queue} parent"
    assert link_qdiscs.loss_line(forward, arguments).startswith(f"{place} 1:11 handle 10: netem")
    delay = link_qdiscs.delay_line(forward, arguments, IDLE, 1)
    assert delay.startswith(f"{place} 10:1 handle 2: netem limit 10000 delay 250000us")
    rate = f"class add {place} 1: classid 1:11 htb rate 10000000bit burst 1000b"
    assert link_qdiscs.rate_lines(forward, arguments, State(1e7, 250, 0), "add") == [rate]
    moving = parsed("leo", "x", "y", "--queue", "netem")
    held, carried = (
        link_qdiscs.rate_lines(forward, moving, State(rate_bps, 20, 0), "change")
        for rate_bps in (0, 1e7)
    )
    assert len(held) == 1 and "handle 3: tbf rate 8bit" in held[0]
    assert len(carried) == 2 and "handle 3: tbf rate 1gbit" in carried[1]


def test_what_was_lost_before_the_rate_took_none_of_it() -> None:
    """Packets that are missing between the first and the last one are no gap in a burst."""
    times_ns = {number: 1_211_200 * place for place, number in enumerate((1, 2, 5, 6))}
    found = link_proof._rate_bps(times_ns, 2)
    assert found == pytest.approx(1e7)


def test_the_return_direction_has_its_own_loss() -> None:
    """The delay is at the root where the direction has no loss: nothing else changes for it."""
    options = (*GEO, "--loss", "0", "--return-loss", "2")
    forward, back = satcom_link.directions(parsed(*options))
    assert (forward.loss_pct, back.loss_pct) == (0, 2)
    assert " loss random 2%" in loss_lines(*options)[1]
    assert [line.split(" handle")[0] for line in delay_lines(*options)] == [
        "dev to_st root",
        "dev to_gw parent 1:1",
    ]
    assert {one.loss_pct for one in satcom_link.directions(parsed(*GEO, "--loss", "1"))} == {1}


def test_small_packets_of_the_proof_fit_into_a_buffer_of_packets() -> None:
    arguments = parsed(*GEO, "--buffer", "4p", "--loss", "1")
    forward, _ = satcom_link.directions(arguments)
    assert satcom_link.target(forward, arguments, IDLE).buffer_packets == 4
    in_bytes = parsed(*GEO, "--loss", "1")
    assert satcom_link.target(forward, in_bytes, IDLE).buffer_packets is None


def asked(**other: float) -> Any:
    values = {
        "rate_bps": 10e6,
        "delay_ms": 250,
        "loss_pct": 0,
        "jitter_ms": 0,
        "burst_packets": 1,
        "buffer_bytes": 625_000,
    }
    return link_proof.Target(**{**values, **other})


@pytest.mark.parametrize(
    ("measured", "other", "said"),
    [
        ((10.0035e6, 250.0003, 0.0), {}, []),
        ((9.8e6, 250.0, 0.0), {}, ["rate 9800000 bit/s instead of 10000000"]),
        ((10e6, 252.0, 0.0), {}, ["delay 252.000 ms instead of 250"]),
        ((10e6, 252.0, 0.0), {"jitter_ms": 1}, []),
        ((10e6, 250.0, 5.0), {}, ["loss 5.000 % instead of 0"]),
        ((10e6, 250.0, 1.8), {"loss_pct": 1}, []),
        ((10e6, 250.0, 9.0), {"loss_pct": 1}, ["loss 9.000 % instead of 1"]),
        ((10e6, 250.0, 9.0), {"loss_pct": 1, "burst_packets": 10}, []),
        ((None, 250.0, 0.0), {}, [f"rate {link_proof.UNSEEN}"]),
        ((10e6, None, 0.0), {}, [f"delay {link_proof.UNSEEN}"]),
        (
            (None, None, 99.0),
            {"loss_pct": 99},
            [f"delay {link_proof.UNSEEN}", f"rate {link_proof.UNSEEN}"],
        ),
    ],
)
def test_a_link_that_is_not_what_was_asked_for_is_told(
    measured: tuple[float | None, float | None, float], other: dict[str, float], said: list[str]
) -> None:
    assert link_proof.differences(asked(**other), link_proof.Measured(*measured)) == said


class Forward(NamedTuple):
    name: str = "forward"
    arrives: str = "a"
    leaves: str = "b"


NOTHING = link_proof.Measured(None, None, 0.0)


@pytest.mark.parametrize(
    ("measured", "count", "right"),
    [
        ([NOTHING] * 9, link_proof.MEASUREMENTS, False),
        ([NOTHING, link_proof.Measured(10e6, 250.0, 0.0)], 2, True),
        ([link_proof.Measured(10e6, None, 0), link_proof.Measured(None, 250.0, 0)], 2, True),
        ([link_proof.Measured(8e6, 250.0, 0.0)], 1, False),
    ],
)
def test_a_link_that_could_not_be_measured_never_passes(
    measured: list[Any], count: int, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run on a platform sent no measured_delay_ms, and ended Finished Ok."""
    left = iter(measured)
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(link_proof, "measure", lambda *_: next(left))
    monkeypatch.setattr(
        link_proof.collect_agent, "send_stat", lambda _, **values: sent.append(values)
    )
    if right:
        link_proof.prove(Forward(), asked(), lambda: None)
    else:
        with pytest.raises(SystemExit, match=r"does not do what was asked: (delay not known|rate)"):
            link_proof.prove(Forward(), asked(), lambda: None)
    assert [one["measurements"] for one in sent] == [count]


def test_where_most_is_lost_the_link_is_measured_until_something_came_through() -> None:
    lossy = asked(loss_pct=99)
    assert link_proof.most(lossy, NOTHING) == link_proof.MEASUREMENTS_OF_LOSSES
    assert link_proof.most(lossy, link_proof.Measured(10e6, 250.0, 99.0)) == 1


HAS_NOT = "echo no such module >&2; exit 2"


def ended_without(
    job: str, refuses: str, place: Path, monkeypatch: pytest.MonkeyPatch, *more: str
) -> tuple[str, list[str]]:
    """What a link's job says on a host whose commands refuse something, and what it ran there."""
    for name in ("ip", "tc", "nft", "unshare"):
        text = f'echo "$PLACE {name} $*" >> {place}/said\ncase "{name} $*" in {refuses}) {HAS_NOT};; esac'
        body = 'PLACE=apart; export PLACE; shift; exec "$@"' if name == "unshare" else text
        (place / name).write_text(f"#!/bin/sh\n{body}\n")
        (place / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")
    monkeypatch.delenv(netem.CLOCK, raising=False)
    small = [*GEO, "--path-mtus", "1492", *more, "run"]  # where segment sizes are clamped, by nft
    options = {"satcom_link": small, "lan_link": ["to_lan", "--delay-ms", "5", *more]}[job]
    module = load(job, job)
    monkeypatch.setattr(link_qdiscs, "interface_mtu", lambda _: 1500)
    monkeypatch.setattr(sys, "argv", [job, *options])
    # A signal that stays blocked would not reach the commands of later tests.
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: set())
    with pytest.raises(SystemExit) as end:
        module.main()
    ran = (place / "said").read_text().splitlines()
    return str(end.value), [one for one in ran if one[0] == " "]


@pytest.mark.parametrize(
    ("job", "refuses", "lacking"),
    [
        ("satcom_link", r"*matchall*", "matchall (module cls_matchall)"),
        ("satcom_link", r"*netem*", "netem (module sch_netem)"),
        ("satcom_link", r"*tbf*", "tbf (module sch_tbf)"),
        ("satcom_link", r"*ifb*", "ifb (module ifb)"),
        ("satcom_link", r"*clsact*|*filter*", "clsact (module sch_ingress)"),
        ("satcom_link", r"*mirred*", "mirred (module act_mirred)"),
        ("satcom_link", r"*nft*", "nft (module nf_tables)"),
        ("lan_link", r"*netem*", "netem (module sch_netem)"),
    ],
)
def test_a_kernel_that_lacks_a_piece_is_told_before_anything_is_changed(
    job: str, refuses: str, lacking: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was tc's input, which names netem whatever is missing, behind changes made by halves."""
    said, here = ended_without(job, refuses, tmp_path, monkeypatch)
    assert said.startswith("this host's kernel ") and f" has no {lacking}: " in said
    assert "linux-image-amd64" in said and "linux-modules-extra-" in said
    assert here == [" tc -V"]


@pytest.mark.parametrize("job", ["satcom_link", "lan_link"])
def test_a_tc_that_knows_no_seed_is_told_in_a_sentence(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's: it was `What is "seed"?` and the usage of netem."""
    said, here = ended_without(job, '*" seed "*', tmp_path, monkeypatch, "--seed", "3")
    assert "tc knows no seed of netem" in said and "iproute2 6.6" in said
    assert here == [" tc -V"]
    said, _ = ended_without(job, '*" seed "*|*netem*', tmp_path, monkeypatch, "--seed", "3")
    assert "has no netem (module sch_netem): " in said


def test_an_interface_that_is_not_there_is_named() -> None:
    with pytest.raises(SystemExit, match="interface to_nowhere: No such device"):
        link_qdiscs.interface_mtu("to_nowhere")


def test_the_burst_of_the_proof_fits_into_the_buffer() -> None:
    assert link_proof.full_packets(asked()) == 50
    assert link_proof.full_packets(asked(buffer_bytes=3028)) == 2
    assert link_proof.full_packets(asked(rate_bps=64_000)) == 5


def test_the_bucket_follows_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    line = link_qdiscs.rate_line(
        link_qdiscs.Direction("forward", "a", "b", 1e7, 500, 0, 1), State(1e7, 250, 0), 9000
    )
    assert " burst 15400 " in line  # a platform says nothing of a clock
    for clock, size in (("virtual", 1540), ("real", 15400), ("real/2", 7700), ("real/100", 3080)):
        monkeypatch.setenv("OPENBACH_RUN_CLOCK", clock)
        assert netem.bucket_bytes() == size


def test_the_proof_leaves_out_what_a_larger_bucket_lets_through_at_once() -> None:
    real = {"bucket_bytes": 15400}
    assert link_proof.packets_at_once(asked()) == 0
    assert link_proof.packets_at_once(asked(**real)) == 20
    assert link_proof.full_packets(asked(**real)) == 400
    small = asked(**real, buffer_bytes=9000)
    # The buffer and the bucket.
    assert link_proof.full_packets(small) + link_proof.packets_at_once(small) == 5 + 10
    assert link_proof.differences(asked(**real), link_proof.Measured(9.6e6, 251.5, 0.0)) == []
    assert link_proof.differences(asked(**real), link_proof.Measured(8.5e6, 254, 0.0)) == [
        "delay 254.000 ms instead of 250",
        "rate 8500000 bit/s instead of 10000000",
    ]


ROUTES = """\
default via 192.168.10.1 dev to_box initcwnd 4 initrwnd 5 metric 10
192.168.10.0/24 dev to_box proto kernel scope link src 192.168.10.2 linkdown
"""


def test_routes_are_taken_as_ip_route_takes_them() -> None:
    default, lan = transport_profile.routes(ROUTES)
    assert " ".join(lan) == "192.168.10.0/24 dev to_box proto kernel scope link src 192.168.10.2"
    assert (
        " ".join(default) == "default via 192.168.10.1 dev to_box initcwnd 4 initrwnd 5 metric 10"
    )


def test_the_initial_window_takes_the_place_of_the_routes_own() -> None:
    default, lan = transport_profile.routes(ROUTES)
    assert (
        " ".join(transport_profile.with_initial_window(default, 40))
        == "default via 192.168.10.1 dev to_box metric 10 initcwnd 40 initrwnd 40"
    )
    assert transport_profile.with_initial_window(lan, 40) == [
        *lan,
        "initcwnd",
        "40",
        "initrwnd",
        "40",
    ]


HYSTART = Path("/sys/module/tcp_cubic/parameters/hystart")


@pytest.mark.parametrize(
    ("cc", "in_kernel", "algorithm", "hystart"),
    [
        ("cubic", ["cubic"], "cubic", "1"),
        ("cubic_nohystart", ["cubic"], "cubic", "0"),
        ("cubic", ["cubic", "cubic_nohystart"], "cubic", "1"),
        ("cubic_nohystart", ["cubic", "cubic_nohystart"], "cubic_nohystart", None),
        ("bbr2", ["cubic", "bbr2"], "bbr2", None),
    ],
)
def test_a_profile_is_an_algorithm_and_its_parameters(
    cc: str,
    in_kernel: list[str],
    algorithm: str,
    hystart: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(profiles, "is_in_kernel", in_kernel.__contains__)
    wanted = transport_profile.settings(cc, 16 << 20, profiles.algorithm(cc))
    assert wanted[transport_profile.IPV4 / "tcp_congestion_control"] == algorithm
    assert wanted.get(HYSTART) == hystart


def test_sysctls_of_a_profile_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    described = {"algorithm": "cubic", "sysctls": {"net.ipv4.tcp_ecn": "1"}}
    (tmp_path / "mine/profile.json").write_text(json.dumps(described))
    monkeypatch.setattr(profiles, "FOLDERS", tmp_path)
    assert (
        transport_profile.settings("mine", 16 << 20, "cubic")[Path("/proc/sys/net/ipv4/tcp_ecn")]
        == "1"
    )


def test_sysctls_of_a_profile_come_after_the_buffers() -> None:
    set_by_profile = profiles.described("cubic_resume")["sysctls"]["net.ipv4.tcp_rmem"]
    assert (
        transport_profile.settings("cubic_resume", 16 << 20, "cubic_resume")[
            transport_profile.IPV4 / "tcp_rmem"
        ]
        == set_by_profile
    )
    assert "131072" not in set_by_profile


def test_the_kernel_says_what_congestion_controls_it_has() -> None:
    assert profiles.is_in_kernel("reno")
    assert not profiles.is_in_kernel("no_such_control")


@pytest.mark.parametrize(
    ("name", "words"),
    {
        "bbr2": (
            r"congestion control bbr2; it has .*reno.*; its module is built by: sudo python3"
            r" .*install_modules.py bbr2$"
        ),
        "vegas9": r"congestion control vegas9; it has [\w ]*$",
    }.items(),
)
def test_a_congestion_control_that_the_kernel_has_not(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "is_in_kernel", lambda algorithm: False)
    with pytest.raises(SystemExit, match=words):
        profiles.algorithm(name)


@pytest.mark.parametrize(
    ("cc", "used"), [("cubic_nohystart", "cubic"), ("bbr2", "bbr2"), (None, "reno"), ("bbr", None)]
)
def test_a_sender_with_the_profiles_algorithm(cc: str | None, used: str | None) -> None:
    file_transfer.check_congestion_control(cc, used)


def test_a_sender_with_another_one() -> None:
    with pytest.raises(SystemExit, match="used the congestion control cubic instead of bbr2"):
        file_transfer.check_congestion_control("bbr2", "cubic")


def test_the_lists_are_those_of_the_folders() -> None:
    """What tools/control_lists.py writes."""
    for file, text in control_lists.texts().items():
        assert file.read_text() == text, f"{file}: run tools/control_lists.py"


def test_each_folder_is_a_profile() -> None:
    for name in profiles.names():
        folder = profiles.FOLDERS / name
        described = json.loads((folder / "profile.json").read_text())
        assert described["description"]
        assert described.keys() <= {"title", "description", "algorithm", "parameters", "sysctls"}
        assert (folder / "Kbuild").exists() == bool(list(folder.glob("*.c")))


def test_dkms_gets_the_folder_and_a_version_of_its_content(tmp_path: Path) -> None:
    added = install_modules.add_source("bbr3", tmp_path)
    module, version = added.split("/")
    place = tmp_path / f"{module}-{version}"
    sources = {"Kbuild", "bbr.h", "bbr3.h", "tcp_bbr3.c"}
    assert {file.name for file in place.iterdir()} == {*sources, "dkms.conf", "profile.json"}
    assert f'PACKAGE_VERSION="{version}"' in (place / "dkms.conf").read_text()
    assert install_modules.package("bbr2")[1] != version


def test_a_value_that_the_kernel_did_not_take_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="writing 'bbr'"):
        transport_profile.write(tmp_path / "absent/tcp_congestion_control", "bbr")


ROUTE_TABLE = """\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
to_gw	0014A8C0	02030A0A	0003	0	0	0	00FFFFFF	0	0	0
to_gw	00030A0A	00000000	0001	0	0	0	00FFFFFF	0	0	0
to_st	00020A0A	00000000	0001	0	0	0	00FFFFFF	0	0	0
"""
NEIGHBOUR_TABLE = """\
IP address       HW type     Flags       HW address            Mask     Device
10.10.2.1        0x1         0x6         02:00:0a:0a:02:01     *        to_st
10.10.3.2        0x1         0x6         02:00:0a:0a:03:02     *        to_gw
"""


@pytest.mark.parametrize(
    ("interface", "found"), [("to_gw", "10.10.3.2"), ("to_st", "10.10.2.1"), ("to_nobody", None)]
)
def test_the_other_end_is_a_gateway_or_a_neighbour(interface: str, found: str | None) -> None:
    assert link_proof.beyond(interface, ROUTE_TABLE, NEIGHBOUR_TABLE) == found


def test_the_end_hosts_tcp_has_the_options_that_are_given() -> None:
    arguments = transport_profile.parse(
        ["cubic", "--ecn", "on", "--sack", "off", "--buffer-bytes", "64k"]
    )
    settings = transport_profile.settings(
        "cubic", arguments.buffer_bytes, "cubic", arguments.options
    )
    ipv4 = {
        file.name: value
        for file, value in settings.items()
        if file.parent == transport_profile.IPV4
    }
    assert (ipv4["tcp_ecn"], ipv4["tcp_sack"]) == ("1", "0")
    assert "tcp_window_scaling" not in ipv4
    assert (ipv4["tcp_rmem"], ipv4["tcp_wmem"]) == ("4096 64000 64000", "4096 16384 64000")


def test_without_options_tcp_is_as_it_was() -> None:
    arguments = transport_profile.parse(["cubic", "--ecn", "default", "--buffer-bytes", "default"])
    assert arguments.options == {}
    settings = transport_profile.settings(
        "cubic", arguments.buffer_bytes, "cubic", arguments.options
    )
    names = {file.name: value for file, value in settings.items()}
    assert names.keys() & {"tcp_ecn", "tcp_sack", "tcp_window_scaling"} == set()
    assert (names["tcp_rmem"], names["tcp_wmem"]) == ("4096 131072 16777216", "4096 16384 16777216")


def test_a_buffer_holds_for_a_profile_with_buffers_of_its_own() -> None:
    """At commit d3f116b the profile's took the place of the one that was asked for."""
    settings = transport_profile.settings("cubic_resume", 1_000_000, "cubic_resume", {})
    assert settings[transport_profile.IPV4 / "tcp_rmem"] == "4096 1000000 1000000"
