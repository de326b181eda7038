# SPDX-License-Identifier: GPL-3.0-or-later
"""The return link of kernel/modules/dama in user space, against what formulas say of it.

All is built with the sanitizers of addresses and undefined behaviour, and ends at what they find.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from link_proof import ClassCounters

SOURCE = Path(__file__).parents[2] / "kernel/modules/dama"
FLAGS = "-std=c11 -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover"
OPENSAND, OPENSAND_8_2, SNS3 = 0, 1, 2
ALOHA, CRDSA = 1, 2
BE = 4
D_US = 250_000
QPSK_BYTES = 59
"""Of a burst of waveform 4."""

BY_OPENSAND = {
    "superframe_us": 26_500,
    "delay_us": D_US,
    "processing_us": 0,
    "request_period": 38,
    "request_rtt": 23,
    "rbdc_life": 39,
    "vbdc_life": 39,
    "slots": 1977,
    "burst_bytes": QPSK_BYTES,
    "algorithm": OPENSAND,
    "over_request_pct": 100,
    "queue_bytes": 10_000_000,
    "queue_packets": 100_000,
    "terminals": 1,
}
BY_SNS3 = {
    **BY_OPENSAND,
    "superframe_us": 100_000,
    "processing_us": 100_000,
    "request_period": 1,
    "request_rtt": 6,
    "rbdc_life": 5,
    "vbdc_life": 7,
    "algorithm": SNS3,
    "over_request_pct": 110,
}


class Wish(NamedTuple):
    """The rate that a proxy wants a terminal to ask for from a time on."""

    time_us: int
    terminal: int
    rate_bps: int


Shares = Sequence[tuple[int, dict[str, int]]]
"""Terminals, and what each of them has and may ask for."""


class Packet(NamedTuple):
    """A packet that arrives at a terminal."""

    time_us: int
    terminal: int
    kind: int
    length: int


class Terminal(NamedTuple):
    """The counters of a terminal."""

    granted_slots: int
    used_slots: int
    used_bytes: int
    header_bytes: int
    padded_bytes: int
    queued_bytes: int
    requests: int
    collisions: int


class Outcome(NamedTuple):
    """What the link has done."""

    left_us: dict[int, float]
    """Number of a packet → when it left."""
    dropped: list[int]
    next_ns: int
    most_slots: int
    classes: dict[tuple[int, int], ClassCounters]
    terminals: list[Terminal]
    looks: list[list[Terminal]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dama") / "dama"
    sources = [str(Path(__file__).with_name("dama.c")), str(SOURCE / "core.c")]
    command = ["gcc", *FLAGS.split(), f"-I{SOURCE}", *sources, "-o", str(made)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return made


def played(
    program: Path,
    values: dict[str, int],
    packets: Iterable[Packet],
    until_us: int,
    looks_us: Sequence[int] = (),
    shares: Shares = (),
    wishes: Sequence[Wish] = (),
) -> Outcome:
    """What the link does with these packets until a time."""
    lines = [(one.time_us, " ".join(map(str, one))) for one in packets]
    lines += [(one.time_us, f"wish {' '.join(map(str, one))}") for one in wishes]
    lines += [(time_us, f"look {time_us}") for time_us in looks_us]
    lines.sort(key=lambda one: one[0])
    first = " ".join(f"{name}={value}" for name, value in values.items())
    given_shares = []
    for number, share in shares:
        words = " ".join(f"{name}={value}" for name, value in share.items())
        given_shares.append(f"give {number} {words}")
    text = "\n".join([first, *given_shares, *(line for _, line in lines), f"end {until_us}", ""])
    done = subprocess.run([program], check=False, capture_output=True, text=True, input=text)
    assert not done.returncode, done.stdout[-2000:] + done.stderr[-4000:]
    return read(done.stdout)


def read(text: str) -> Outcome:
    left_us: dict[int, float] = {}
    dropped: list[int] = []
    classes: dict[tuple[int, int], ClassCounters] = {}
    terminals: list[Terminal] = []
    looks: list[list[Terminal]] = []
    last: dict[str, int] = {}
    for line in text.splitlines():
        word, *rest = line.split() or [""]
        numbers = [int(one) for one in rest]
        match word:
            case "leaves":
                left_us[numbers[0]] = numbers[1] / 1000
            case "drops":
                dropped.append(numbers[0])
            case "class":
                classes[numbers[0], numbers[1]] = ClassCounters(*numbers[2:])
            case "end":
                terminals.append(Terminal(*numbers[1:]))
            case "look":
                if not numbers[0]:
                    looks.append([])
                looks[-1].append(Terminal(*numbers[1:]))
            case "next" | "most":
                last[word] = numbers[0]
    return Outcome(left_us, dropped, last["next"], last["most"], classes, terminals, looks)


def constant(
    rate_bps: float, length: int, from_us: int, until_us: int, terminal: int = 0
) -> list[Packet]:
    """Packets of one length at a constant rate."""
    each_us = length * 8e6 / rate_bps
    count = int((until_us - from_us) / each_us)
    return [Packet(int(from_us + i * each_us), terminal, BE, length) for i in range(count)]


def jain(numbers: Sequence[float]) -> float:
    """Jain's index of fairness: 1 if all are equal."""
    return sum(numbers) ** 2 / (len(numbers) * sum(one * one for one in numbers))


def rtts_ms(program: Path, values: dict[str, int], starts_us: Sequence[int]) -> list[float]:
    """The RTT of a packet of one burst for each start, of a link that has been silent before.

    The way back and the way through the satellite take D each.
    """
    found = []
    for start_us in starts_us:
        outcome = played(program, values, [Packet(start_us, 0, BE, 40)], start_us + 20_000_000)
        found.append((outcome.left_us[0] - start_us + 2 * D_US) / 1000)
    return found


# Check 1 of 7


def test_a_ping_waits_for_the_next_superframe_where_constant_capacity_is_enough(
    program: Path,
) -> None:
    """RTT = 2 D + U(0, T): in [500, 526.5] ms, with a mean of 513.25 ms."""
    values = {**BY_OPENSAND, "cra_bps": 3_000_000}
    period_us = 26_500
    starts_us = [10_000_000 + i * period_us + i * period_us // 100 for i in range(100)]
    packets = [Packet(start_us, 0, BE, 40) for start_us in starts_us]
    outcome = played(program, values, packets, starts_us[-1] + 5_000_000)
    found_ms = [
        (outcome.left_us[i] - start_us + 2 * D_US) / 1000 for i, start_us in enumerate(starts_us)
    ]
    assert min(found_ms) >= 500 and max(found_ms) <= 526.5
    assert sum(found_ms) / len(found_ms) == pytest.approx(500 + 26.5 / 2, abs=0.5)


# Check 2


def test_a_ping_pays_a_request_cycle_where_all_capacity_is_asked_for(program: Path) -> None:
    """RTT = 4 D + U(0, P) + two alignments to superframes, each at most T.

    With D = 250 ms and T = 26.5 ms each of them is 10 T - D = 15 ms.
    """
    values = {**BY_OPENSAND, "rbdc_bps": 1_000_000}
    period_us = 38 * 26_500
    starts_us = [5 * period_us + i * period_us // 50 + 1 for i in range(50)]
    found_ms = rtts_ms(program, values, starts_us)
    aligned_ms = 2 * (10 * 26.5 - 250)
    assert min(found_ms) >= 1000 + aligned_ms
    assert max(found_ms) <= 1000 + aligned_ms + 1007
    assert sum(found_ms) / 50 == pytest.approx(1000 + aligned_ms + 1007 / 2, abs=11)


def test_a_ping_by_the_timing_of_sns3(program: Path) -> None:
    """1.1 to 1.4 s: 4 D, 100 ms of processing, a request each 100 ms, two alignments."""
    values = {**BY_SNS3, "rbdc_bps": 9_216_000}
    starts_us = [5_000_000 + i * 2000 for i in range(50)]
    found_ms = rtts_ms(program, values, starts_us)
    assert min(found_ms) >= 1100 and max(found_ms) <= 1400


def test_constant_and_asked_for_capacity_differ_by_one_request_cycle(program: Path) -> None:
    """The difference of checks 1 and 2: 2 D, U(0, P) and the alignments, without check 1's own."""
    starts_us = [5 * 38 * 26_500 + i * 38 * 26_500 // 50 + 1 for i in range(50)]
    means_ms = []
    for own in ({"cra_bps": 3_000_000}, {"rbdc_bps": 1_000_000}):
        found_ms = rtts_ms(program, {**BY_OPENSAND, **own}, starts_us)
        means_ms.append(sum(found_ms) / len(found_ms))
    cycle_ms = 500 + 1007 / 2 + 30 - 26.5 / 2
    assert means_ms[1] - means_ms[0] == pytest.approx(cycle_ms, abs=11)


@pytest.mark.parametrize("access", [ALOHA, CRDSA])
def test_a_first_request_by_random_access_does_not_wait_for_its_turn(
    program: Path, access: int
) -> None:
    """The period P has no part in it then, but the frame of 3 superframes has: 500 ms less."""
    by_random = {"random_access": access, "ra_frame": 3, "ra_slots": 100, "ra_replicas": 3}
    starts_us = [5 * 38 * 26_500 + i * 38 * 26_500 // 50 + 1 for i in range(50)]
    means_ms = []
    for own in ({}, {**by_random, "ra_backoff": 10}):
        found_ms = rtts_ms(program, {**BY_OPENSAND, "rbdc_bps": 1_000_000, **own}, starts_us)
        means_ms.append(sum(found_ms) / len(found_ms))
    # The next of both: of a turn that comes within U(0, P), and a frame within U(0, 3 T).
    frame, period = 3 * 26.5, 38 * 26.5
    earlier_ms = frame / 2 - frame**2 / (6 * period)
    assert means_ms[0] - means_ms[1] == pytest.approx(period / 2 - earlier_ms, abs=26.5)


# Check 3


@pytest.mark.parametrize("values", [BY_OPENSAND, BY_SNS3], ids=["opensand", "sns3"])
def test_grants_settle_at_a_constant_rate(program: Path, values: dict[str, int]) -> None:
    """At the rate times the factor of requests, within a slot for each superframe.

    The rate includes the headers: a packet of 57 bytes and its header of 2 fill a burst.
    """
    own = {**values, "rbdc_bps": 5_000_000}
    packets = constant(1_000_000, QPSK_BYTES - 2, 0, 30_000_000)
    outcome = played(program, own, packets, 30_000_000, looks_us=[20_000_000])
    frames = 10_000_000 / own["superframe_us"]
    granted = (outcome.terminals[0].granted_slots - outcome.looks[0][0].granted_slots) / frames
    needed = 1_000_000 * own["superframe_us"] / 8e6 / (QPSK_BYTES - 2)
    asked = own["over_request_pct"] / 100 * needed * (QPSK_BYTES - 2) / QPSK_BYTES
    assert granted >= needed - 1 and granted == pytest.approx(max(asked, needed), abs=1)


def test_the_queue_after_a_step_of_the_rate(program: Path) -> None:
    """Its peak is near Δr (P / 2 + 2 D + T), on average over when the step comes in a period."""
    values = {**BY_OPENSAND, "rbdc_bps": 8_000_000, "over_request_pct": 110}
    period_us, step_bps, peaks = 38 * 26_500, 1_000_000, []
    for i in range(8):
        step_us = 10 * period_us + i * period_us // 8
        packets = constant(1_000_000, 500, 0, step_us)
        packets += constant(1_000_000 + step_bps, 500, step_us, step_us + 5_000_000)
        looks_us = range(step_us, step_us + 5_000_000, 5_000)
        outcome = played(program, values, packets, step_us + 5_000_000, looks_us)
        queued = [one[0].queued_bytes for one in outcome.looks]
        peaks.append(max(queued) - queued[0])
    expected = step_bps / 8 * (period_us / 2 + 2 * D_US + 26_500) / 1e6
    # The rate that is asked for first has a part of the period before the step in it.
    assert expected * 0.9 <= sum(peaks) / len(peaks) <= expected * 1.6


# Check 4


@pytest.mark.parametrize("values", [BY_OPENSAND, BY_SNS3], ids=["opensand", "sns3"])
def test_equal_demands_beyond_the_capacity_get_equal_shares(
    program: Path, values: dict[str, int]
) -> None:
    count, until_us = 7, 30_000_000
    own = {**values, "rbdc_bps": 4_000_000, "terminals": count, "slots": 50}
    packets = [
        one
        for terminal in range(count)
        for one in constant(2_000_000, 1000, terminal * 7919, until_us, terminal)
    ]
    begin_us = 10_000_000
    outcome = played(program, own, packets, until_us, looks_us=[begin_us])
    granted = [
        after.granted_slots - before.granted_slots
        for after, before in zip(outcome.terminals, outcome.looks[0], strict=True)
    ]
    frames = (until_us - begin_us) // own["superframe_us"]
    assert outcome.most_slots <= 50
    assert sum(granted) == pytest.approx(50 * frames, rel=0.01)
    assert max(granted) - min(granted) <= frames
    assert jain(granted) >= 0.9999


def test_a_starved_terminal_recovers_within_two_cycles_after_the_others_end(program: Path) -> None:
    count, quiet_us, end_us = 10, 12_000_000, 40_000_000
    values = {
        **BY_SNS3,
        "rbdc_bps": 9_000_000,
        "terminals": count,
        "slots": 200,
        "queue_bytes": 50_000,
    }
    packets = constant(60_000, 500, 0, end_us)
    for terminal in range(1, count):
        packets += constant(500_000, 1000, terminal * 7919, quiet_us, terminal)
    packets.sort()
    outcome = played(program, values, packets, end_us)
    cycle_us = 2 * D_US + 100_000 + 4 * 100_000
    waits_us = {
        packets[number].time_us: left_us - packets[number].time_us
        for number, left_us in outcome.left_us.items()
        if not packets[number].terminal
    }
    # The others end when their queues have been sent, too.
    ended_us = max(left_us for i, left_us in outcome.left_us.items() if packets[i].terminal)
    starved = [wait for at, wait in waits_us.items() if quiet_us / 2 < at < quiet_us]
    recovered = [wait for at, wait in waits_us.items() if at > ended_us + 2 * cycle_us]
    assert ended_us > quiet_us and min(starved) > 2 * cycle_us
    assert len(recovered) > 50 and max(recovered) <= cycle_us


# Check 5


def test_silence_longer_than_a_request_lives_ends_the_grants(program: Path) -> None:
    values = {**BY_OPENSAND, "rbdc_bps": 1_000_000}
    period_us = 38 * 26_500
    first_us, second_us = 5 * period_us + 500_000, 15 * period_us + 500_000
    packets = [Packet(first_us, 0, BE, 40), Packet(second_us, 0, BE, 40)]
    # From the request of the first one on, one slot in each superframe for as long as it lives.
    looks_us = [6 * period_us + 20 * 26_500 + 39 * 26_500 + 1, second_us]
    outcome = played(program, values, packets, second_us + 20_000_000, looks_us)
    assert outcome.looks[0][0].granted_slots == outcome.looks[1][0].granted_slots == 39
    waited_us = [outcome.left_us[0] - first_us, outcome.left_us[1] - second_us]
    assert waited_us[0] == waited_us[1] >= 2 * D_US


# Check 6


def test_bytes_of_acks_decide_the_rate_of_a_download_over_constant_capacity(program: Path) -> None:
    """ACKs of 52 bytes in the clear, 104 by OpenVPN, 124 by WireGuard: 1 : 1.9 : 2.3.

    Bursts are packed: a packet takes its own bytes and its header's, and one that is cut takes the
    start's 2 bytes and another header's 2 more.
    """
    rates = []
    for length in (52, 104, 124):
        values = {**BY_OPENSAND, "cra_bps": 100_000, "queue_bytes": 3000}
        packets = constant(1_000_000, length, 0, 60_000_000)
        outcome = played(program, values, packets, 60_000_000)
        counts, terminal = outcome.classes[0, BE], outcome.terminals[0]
        rates.append(counts.packets_out / 60)
        assert terminal.used_bytes + terminal.header_bytes + terminal.padded_bytes == (
            terminal.used_slots * QPSK_BYTES
        )
        whole = 100_000 / 8 / (length + 2)
        assert 0.9 * whole <= rates[-1] <= whole
    assert rates[0] / rates[1] == pytest.approx(1.9, abs=0.05)
    assert rates[0] / rates[2] == pytest.approx(2.3, abs=0.08)


@pytest.mark.parametrize(("length", "bursts"), [(52, 1), (104, 2), (124, 3)])
def test_an_ack_alone_takes_whole_bursts(program: Path, length: int, bursts: int) -> None:
    values = {**BY_OPENSAND, "cra_bps": 3_000_000}
    outcome = played(program, values, [Packet(1_000_000, 0, BE, length)], 2_000_000)
    assert outcome.terminals[0].used_slots == bursts


@pytest.mark.parametrize(("burst_bytes", "bursts"), [(59, 27), (108, 15)])
def test_a_full_packet_takes_its_number_of_bursts(
    program: Path, burst_bytes: int, bursts: int
) -> None:
    """94.2 and 92.6 % of them are its own bytes."""
    values = {**BY_OPENSAND, "cra_bps": 3_000_000, "burst_bytes": burst_bytes}
    outcome = played(program, values, [Packet(1_000_000, 0, BE, 1500)], 2_000_000)
    assert outcome.terminals[0].used_slots == bursts
    assert outcome.terminals[0].used_bytes == 1500


# What is reproduced under its own name only


def test_opensand_8_2_takes_a_demand_below_its_constant_rate_for_the_largest(program: Path) -> None:
    packets = constant(50_000, 500, 0, 20_000_000)
    granted = []
    for algorithm in (OPENSAND, OPENSAND_8_2):
        values = {**BY_OPENSAND, "cra_bps": 100_000, "rbdc_bps": 1_000_000, "algorithm": algorithm}
        granted.append(played(program, values, packets, 20_000_000).terminals[0].granted_slots)
    slots = 20e6 / 26_500 * (100_000 * 26_500 / 8e6 / QPSK_BYTES)
    assert granted[0] == pytest.approx(slots, rel=0.02)
    assert granted[1] > 5 * granted[0]


def test_opensand_8_2_asks_again_for_what_is_on_its_way(program: Path) -> None:
    """Its history is empty, so a queue is asked for each time until it has gone."""
    packets = [Packet(2_000_000 + i, 0, BE, 1000) for i in range(40)]
    granted = []
    for algorithm in (OPENSAND, OPENSAND_8_2):
        values = {**BY_OPENSAND, "vbdc_bytes": 100_000, "request_period": 5, "algorithm": algorithm}
        outcome = played(program, values, packets, 20_000_000)
        assert outcome.classes[0, BE].packets_out == 40
        granted.append(outcome.terminals[0].granted_slots)
    assert granted[1] > 2 * granted[0]


# What holds for all


def test_voice_goes_before_a_file(program: Path) -> None:
    values = {**BY_OPENSAND, "cra_bps": 500_000}
    packets = [Packet(1_000_000, 0, BE, 1500) for _ in range(40)]
    packets += [Packet(1_100_000, 0, 2, 60)]
    outcome = played(program, values, packets, 3_000_000)
    assert outcome.left_us[40] - 1_100_000 <= 26_500
    assert outcome.classes[0, 2].p95_us <= 26_500 * 1.02
    assert outcome.classes[0, BE].p95_us > 500_000


def test_an_idle_link_rests_and_is_the_same_as_one_that_is_looked_at(program: Path) -> None:
    packets = [Packet(time_us, 0, BE, 700) for time_us in (1_000_000, 90_000_000, 200_000_000)]
    values = {**BY_OPENSAND, "cra_bps": 30_000, "rbdc_bps": 1_000_000}
    outcome = played(program, values, packets, 300_000_000)
    watched = played(program, values, packets, 300_000_000, range(0, 300_000_000, 26_500))
    assert outcome.left_us == watched.left_us
    assert outcome.terminals == watched.terminals
    assert outcome.next_ns == 2**64 - 1


def test_simulated_terminals_ask_as_their_mean_says(program: Path) -> None:
    values = {
        **BY_SNS3,
        "rbdc_bps": 1_024_000,
        "simulated": 100,
        "simulated_bps": 200_000,
        "simulated_deviation_bps": 100_000,
        "simulated_on_us": 5_000_000,
        "simulated_off_us": 5_000_000,
        "slots": 7_000,
        "seed": 5,
    }
    outcome = played(program, values, [], 300_000_000)
    carried = sum(one.bytes_out for (number, _), one in outcome.classes.items() if number)
    assert carried * 8 / 300 / 100 == pytest.approx(200_000 / 2, rel=0.05)
    assert outcome == played(program, values, [], 300_000_000)
    assert outcome != played(program, {**values, "seed": 6}, [], 300_000_000)


def test_random_access_collides_less_with_replicas(program: Path) -> None:
    """Of 30 terminals in 60 slots ALOHA loses 1 - exp(-29/60), CRDSA hardly any."""
    packets = [Packet(5_000_000, terminal, BE, 40) for terminal in range(30)]
    shares = []
    for access in (ALOHA, CRDSA):
        values = {
            **BY_OPENSAND,
            "rbdc_bps": 1_000_000,
            "request_period": 1000,
            "terminals": 30,
            "random_access": access,
            "ra_frame": 3,
            "ra_slots": 60,
            "ra_replicas": 3,
            "ra_backoff": 10,
        }
        collided = 0
        for seed in range(20):
            outcome = played(program, {**values, "seed": seed}, packets, 5_100_000)
            collided += sum(one.collisions for one in outcome.terminals)
        shares.append(collided / (20 * 30))
    assert shares[0] == pytest.approx(1 - 2.718281828 ** (-29 / 60), abs=0.06)
    assert shares[1] < 0.02


LENGTHS = st.integers(1, 1600)


@st.composite
def links(draw: st.DrawFn) -> tuple[dict[str, int], list[Packet]]:
    """Values and packets of any link."""

    def some(least: int, most: int) -> int:
        return draw(st.integers(least, most))

    terminals, simulated = some(1, 6), some(0, 6)
    slots, burst, superframe_us = some(1, 300), some(16, 600), some(1000, 100_000)
    fair_bps = int(slots * burst * 8e6 / superframe_us / (terminals + simulated))
    values: dict[str, int] = {
        "superframe_us": superframe_us,
        "delay_us": some(0, 400_000),
        "processing_us": some(0, 100_000),
        "request_period": some(1, 40),
        "request_rtt": some(1, 500),
        "rbdc_life": some(1, 50),
        "vbdc_life": some(1, 50),
        "slots": slots,
        "burst_bytes": burst,
        "label_bytes": some(0, 8),
        "check_bytes": some(0, 4),
        "algorithm": some(0, 2),
        "over_request_pct": some(100, 200),
        "cra_bps": draw(st.sampled_from([0, min(fair_bps, 1_000_000_000)])),
        "rbdc_bps": draw(st.sampled_from([0, 1000, 1_000_000, 100_000_000])),
        "vbdc_bytes": draw(st.sampled_from([0, 100, 50_000])),
        "fca_bps": draw(st.sampled_from([0, 64_000, 10_000_000])),
        "queue_bytes": some(1, 20_000),
        "queue_packets": some(1, 30),
        "random_access": some(0, 2),
        "ra_frame": some(1, 5),
        "ra_slots": some(5, 40),
        "ra_replicas": some(2, 5),
        "ra_backoff": some(1, 20),
        "terminals": terminals,
        "simulated": simulated,
        "simulated_bps": some(0, 2_000_000),
        "simulated_deviation_bps": some(0, 1_000_000),
        "simulated_on_us": some(0, 500_000),
        "simulated_off_us": some(0, 500_000),
        "seed": some(0, 2**64 - 1),
    }
    if not any(values[name] for name in ("cra_bps", "rbdc_bps", "vbdc_bytes", "fca_bps")):
        values["fca_bps"] = 64_000
    while (superframes := -(-500_000 // superframe_us)) >= 510:
        values["superframe_us"] = superframe_us = superframe_us + 1000 * superframes // 500
        values["cra_bps"] = 0
        values["fca_bps"] = 64_000
    packet = st.builds(
        Packet,
        st.integers(0, 5_000_000),
        st.integers(0, terminals - 1),
        st.integers(0, BE),
        LENGTHS,
    )
    return values, sorted(draw(st.lists(packet, max_size=60)))


def nothing_is_lost_or_made(program: Path, link: tuple[dict[str, int], list[Packet]]) -> None:
    """Bytes in = out + dropped + queued, for each class of each terminal, whatever the values.

    No superframe has more grants than slots, bursts are full to the byte, and no packet leaves
    before one of its class that came earlier.
    """
    values, packets = link
    outcome = played(program, values, packets, 6_000_000)
    for one in outcome.classes.values():
        assert one.bytes_in == one.bytes_out + one.bytes_dropped + one.bytes_queued
        assert one.packets_in == one.packets_out + one.packets_dropped + one.packets_queued
    assert outcome.most_slots <= values["slots"]
    for terminal in outcome.terminals:
        assert terminal.used_slots <= terminal.granted_slots
        sent = terminal.used_bytes + terminal.header_bytes + terminal.padded_bytes
        assert sent == terminal.used_slots * values["burst_bytes"]
    expected: dict[tuple[int, int], list[Any]] = {}
    for number, packet in enumerate(packets):
        if number in outcome.left_us:
            assert outcome.left_us[number] >= packet.time_us
            expected.setdefault((packet.terminal, packet.kind), []).append(outcome.left_us[number])
    for times_us in expected.values():
        assert times_us == sorted(times_us)


@pytest.mark.parametrize("examples", [100, pytest.param(1000, marks=pytest.mark.nightly)])
def test_nothing_is_lost_or_made(program: Path, examples: int) -> None:
    limits = settings(max_examples=examples, deadline=None, suppress_health_check=[*HealthCheck])
    limits(given(links())(nothing_is_lost_or_made))(program)


# Shares of their own


def test_a_share_that_is_what_all_have_changes_nothing(program: Path) -> None:
    """To the nanosecond, also where requests are more than the capacity."""
    values = {
        **BY_OPENSAND,
        "terminals": 3,
        "slots": 30,
        "cra_bps": 16_000,
        "rbdc_bps": 400_000,
        "fca_bps": 9_000,
    }
    packets: list[Packet] = []
    for number in range(3):
        packets += constant(300_000, 900, 1_000_000, 20_000_000, number)
    packets.sort()
    share = {"cra_bps": 16_000, "rbdc_bps": 400_000, "vbdc_bytes": 0, "weight": 1}
    alike = [(number, share) for number in range(3)]
    ends_us = 25_000_000
    assert played(program, values, packets, ends_us) == played(
        program, values, packets, ends_us, shares=alike
    )


def rates_bps(outcome: Outcome, before: int, after: int, seconds: float) -> list[float]:
    """The rate that each terminal was granted between two looks."""
    return [
        (other.granted_slots - one.granted_slots) * QPSK_BYTES * 8 / seconds
        for one, other in zip(outcome.looks[before], outcome.looks[after], strict=True)
    ]


def test_constant_rates_are_each_terminal_s_own(program: Path) -> None:
    values = {**BY_OPENSAND, "terminals": 3, "cra_bps": 100_000}
    shares = [(0, {"cra_bps": 50_000}), (2, {"cra_bps": 1_000_000})]
    outcome = played(program, values, [], 70_000_000, [10_000_000, 60_000_000], shares)
    found = rates_bps(outcome, 0, 1, 50)
    assert found == pytest.approx([50_000, 100_000, 1_000_000], rel=0.002)


def test_each_terminal_asks_for_its_own_largest_rate(program: Path) -> None:
    """All send 3 Mbit/s, and there is enough for all that they may ask for."""
    values = {**BY_OPENSAND, "terminals": 3, "rbdc_bps": 500_000, "queue_bytes": 200_000}
    packets: list[Packet] = []
    for number in range(3):
        packets += constant(3_000_000, 1500, 1_000_000, 40_000_000, number)
    packets.sort()
    shares = [(1, {"rbdc_bps": 1_000_000}), (2, {"rbdc_bps": 2_000_000})]
    outcome = played(program, values, packets, 40_000_000, [10_000_000, 35_000_000], shares)
    # A request is rounded up to whole slots.
    slot_bps = QPSK_BYTES * 8e6 / 26_500
    expected = [-(-most // slot_bps) * slot_bps for most in (5e5, 1e6, 2e6)]
    assert rates_bps(outcome, 0, 1, 25) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize(
    ("weights", "wants", "expected"),
    [
        ((1, 1, 1), (500, 500, 500), (100 / 3, 100 / 3, 100 / 3)),
        ((1, 2, 5), (500, 500, 500), (100 / 8, 200 / 8, 500 / 8)),
        # The third one wants a tenth of the capacity, and gets it; the others part what is left.
        ((1, 2, 50), (500, 500, 10), (30, 60, 10)),
        # In proportion to what is wanted, as without weights.
        ((1, 1, 1), (90, 30, 30), (60, 20, 20)),
        # By weight the second one would get 57 of the 100 slots. It wants less.
        ((1, 4, 1), (90, 30, 30), (52.5, 30, 17.5)),
    ],
)
def test_where_there_is_too_little_rates_go_by_weight(
    program: Path, weights: Sequence[int], wants: Sequence[int], expected: Sequence[float]
) -> None:
    """In slots of 100: what is wanted times the weight, over the sum of these of who gets less."""
    values = {**BY_OPENSAND, "terminals": 3, "rbdc_bps": 16_000_000, "slots": 100}
    slot_bps = QPSK_BYTES * 8e6 / 26_500
    wishes = []
    for number, want in enumerate(wants):
        wishes.append(Wish(1_000_000, number, int((want - 0.5) * slot_bps)))
    shares = [(number, {"weight": weight}) for number, weight in enumerate(weights)]
    looks_us = [10_000_000, 10_000_000 + 500 * 26_500]
    outcome = played(program, values, [], 30_000_000, looks_us, shares, wishes)
    assert outcome.most_slots == 100
    granted = [
        (other.granted_slots - one.granted_slots) / 500
        for one, other in zip(*outcome.looks, strict=True)
    ]
    assert granted == pytest.approx(expected, abs=0.01)


def test_free_capacity_goes_by_weight(program: Path) -> None:
    """It is counted while somebody has something to send."""
    values = {**BY_OPENSAND, "terminals": 2, "fca_bps": 100_000}
    packets = constant(200_000, 900, 1_000_000, 70_000_000)
    looks_us = [10_000_000, 60_000_000]
    outcome = played(program, values, packets, 70_000_000, looks_us, [(1, {"weight": 3})])
    assert rates_bps(outcome, 0, 1, 50) == pytest.approx([100_000, 300_000], rel=0.002)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        ({"cra_bps": 40_000_000}, "cra_bps of all terminals is more than all slots"),
        ({"weight": 0}, "weight is from 1 to 1000"),
        ({"rbdc_bps": 2_000_000_000}, "no rate and no volume"),
    ],
)
def test_a_share_that_cannot_be_is_refused(program: Path, share: dict[str, int], said: str) -> None:
    values = {**BY_OPENSAND, "cra_bps": 100_000}
    first = " ".join(f"{name}={value}" for name, value in values.items())
    words = " ".join(f"{name}={value}" for name, value in share.items())
    text = f"{first}\ngive 0 {words}\nend 1000\n"
    done = subprocess.run([program], check=False, capture_output=True, text=True, input=text)
    assert f"wrong {said}" in done.stdout


# A proxy that asks


def test_a_proxy_s_wish_is_granted_without_a_packet(program: Path) -> None:
    """So the first packet after one request cycle waits for a superframe, not for a cycle."""
    values = {**BY_OPENSAND, "rbdc_bps": 1_000_000}
    wish = Wish(10_000_000, 0, 1_000_000)
    arrives_us = 10_000_000 + 38 * 26_500 + 2 * D_US + 3 * 26_500
    packet = [Packet(arrives_us, 0, BE, 40)]
    without = played(program, values, packet, 20_000_000)
    outcome = played(program, values, packet, 20_000_000, wishes=[wish])
    assert outcome.left_us[0] - arrives_us <= 26_500
    assert without.left_us[0] - arrives_us >= 2 * D_US


def test_a_wish_is_the_least_that_is_asked_for_and_at_most_what_may_be(program: Path) -> None:
    values = {**BY_OPENSAND, "rbdc_bps": 1_000_000, "cra_bps": 100_000}
    looks_us = [15_000_000, 55_000_000]
    slot_bps = QPSK_BYTES * 8e6 / 26_500
    for wished_bps, expected_bps in ((600_000, 600_000), (5_000_000, 1_100_000), (50_000, 100_000)):
        wish = Wish(10_000_000, 0, wished_bps)
        outcome = played(program, values, [], 60_000_000, looks_us, wishes=[wish])
        found = rates_bps(outcome, 0, 1, 40)[0]
        assert expected_bps - 1000 <= found <= expected_bps + slot_bps + 1000


def test_a_wish_that_ends_leaves_no_grant_and_no_timer(program: Path) -> None:
    values = {**BY_OPENSAND, "rbdc_bps": 1_000_000}
    wishes = [Wish(10_000_000, 0, 500_000), Wish(15_000_000, 0, 0)]
    outcome = played(program, values, [], 90_000_000, [30_000_000, 60_000_000], wishes=wishes)
    assert outcome.looks[0] == outcome.looks[1] and outcome.looks[0][0].granted_slots > 0
    assert outcome.next_ns == 2**64 - 1
