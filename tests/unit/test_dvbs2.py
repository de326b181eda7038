# SPDX-License-Identifier: GPL-3.0-or-later
"""The forward link of kernel/modules/dvbs2 in user space, against what formulas say of it.

All is built with the sanitizers of addresses and undefined behaviour, and ends at what they find.
"""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from dvbs2_qdisc import ModcodCounters, TerminalCounters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from link_proof import ClassCounters

from openbach_jobs import dvbs2
from openbach_jobs.dvbs2 import MODCODS, RECEIVES, SENDS, SILENT, SLUGS, Change, Forward, Modcod

SOURCE = Path(__file__).parents[2] / "kernel/modules/dvbs2"
FLAGS = "-std=c11 -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover"
NM, EF, SIG, AF, BE = range(5)
SYMBOLS = 10_000_000
D_MS = 250
FULL = 1500
LABEL = 3
QUEUE = {"queue_bytes": 100_000_000, "queue_packets": 100_000}
QPSK_1_4, QPSK_1_2 = SLUGS["qpsk_1_4"], SLUGS["qpsk_1_2"]
PSK8_3_4, APSK16_3_4, APSK32_9_10 = (SLUGS["8psk_3_4"], SLUGS["16apsk_3_4"], SLUGS["32apsk_9_10"])


class Packet(NamedTuple):
    """A packet that arrives at the gateway."""

    time_us: int
    terminal: int
    kind: int
    length: int


class Outcome(NamedTuple):
    """What the link has done."""

    left_us: dict[int, float]
    """Number of a packet → when it left."""
    lost_us: dict[int, float]
    dropped: list[int]
    next_ns: int
    modcods: dict[str, ModcodCounters]
    classes: dict[tuple[int, int], ClassCounters]
    terminals: list[TerminalCounters]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dvbs2") / "dvbs2"
    sources = [str(Path(__file__).with_name("dvbs2.c")), str(SOURCE / "core.c")]
    command = ["gcc", *FLAGS.split(), f"-I{SOURCE}", *sources, "-o", str(made)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return made


def forward(**given: str) -> Forward:
    """The values of a link."""
    return dvbs2.read(dvbs2.in_force(given, {}), D_MS)


def always(*modcods: Modcod) -> Forward:
    """A link on which each terminal has a MODCOD that stays."""
    names = "/".join(one.slug for one in modcods)
    return forward(modcod=names, es_n0_db="20")


def played(
    program: Path,
    link: Forward,
    terminals: int,
    packets: Iterable[Packet],
    until_us: int,
    changes: Sequence[Change] | None = None,
    queue: Mapping[str, int] = QUEUE,
) -> Outcome:
    """What the link does with these packets until a time."""
    if changes is None:
        changes = link.changes(terminals, D_MS)
    ordered = sorted(packets, key=lambda one: one.time_us)
    lines = [
        link.line(terminals, queue, len(changes)),
        *(f"modcod {n} {one.frame_bytes} {one.frame_symbols}" for n, one in enumerate(MODCODS)),
        *(f"change {' '.join(map(str, one))}" for one in changes),
        "go",
        *(" ".join(map(str, one)) for one in ordered),
        f"end {until_us}",
        "",
    ]
    done = subprocess.run(
        [program], check=False, capture_output=True, text=True, input="\n".join(lines)
    )
    assert not done.returncode, done.stdout[-2000:] + done.stderr[-4000:]
    return read(done.stdout)


def read(text: str) -> Outcome:
    found = Outcome({}, {}, [], 0, {}, {}, [])
    for line in text.splitlines():
        word, *rest = line.split()
        numbers = [int(one) for one in rest]
        match word:
            case "leaves":
                found.left_us[numbers[0]] = numbers[1] / 1000
            case "loses":
                found.lost_us[numbers[0]] = numbers[1] / 1000
            case "drops":
                found.dropped.append(numbers[0])
            case "modcod":
                found.modcods[MODCODS[numbers[0]].slug] = ModcodCounters(*numbers[1:])
            case "class":
                found.classes[numbers[0], numbers[1]] = ClassCounters(*numbers[2:])
            case "terminal":
                found.terminals.append(TerminalCounters(*numbers[1:]))
            case "next":
                found = found._replace(next_ns=numbers[0])
    return found


def at_once(terminal: int, kind: int, count: int, length: int = FULL) -> list[Packet]:
    """Packets that wait from the beginning on."""
    return [Packet(0, terminal, kind, length)] * count


def gse_share(modcod: Modcod, length: int = FULL) -> float:
    """The share of a frame that packets get of one after another: one is cut in each frame."""
    whole, cut = dvbs2.WHOLE_BYTES + LABEL, dvbs2.START_BYTES + LABEL + dvbs2.END_BYTES
    packets = (modcod.frame_bytes - (cut - whole)) / (length + whole)
    return packets * length / modcod.frame_bytes


def test_the_table_is_that_of_the_standard() -> None:
    """Its efficiencies are those of frames with headers of 80 bits and 90 symbols."""
    assert len(MODCODS) == len(SLUGS) == 28
    for one in MODCODS:
        assert 8 * one.frame_bytes / one.frame_symbols == pytest.approx(one.efficiency, abs=6e-7)


@pytest.mark.parametrize("modcod", [QPSK_1_4, QPSK_1_2, PSK8_3_4, APSK16_3_4, APSK32_9_10])
def test_goodput_is_symbol_rate_times_efficiency(program: Path, modcod: Modcod) -> None:
    """Less the headers of GSE: within 1 % with them, and within 0.1 % of their formula."""
    until_s = 10
    ceiling_bps = SYMBOLS * modcod.efficiency
    packets = at_once(0, BE, int(ceiling_bps * until_s * 1.02 / 8 / FULL))
    outcome = played(program, always(modcod), 1, packets, until_s * 1_000_000)
    goodput_bps = 8 * FULL * len(outcome.left_us) / until_s
    print(f"{modcod.name}: {goodput_bps / 1e6:.4f} Mbit/s, ceiling {ceiling_bps / 1e6:.4f}")
    assert goodput_bps == pytest.approx(ceiling_bps * gse_share(modcod), rel=0.001)
    assert 0.99 * ceiling_bps < goodput_bps < ceiling_bps
    counted = outcome.modcods[modcod.slug]
    frames_s = SYMBOLS / modcod.frame_symbols
    assert counted.frames == pytest.approx(frames_s * until_s, abs=1)


def test_an_empty_link_delays_a_packet_by_one_frame(program: Path) -> None:
    """The satellite's D comes after it. The frame is padded, and nothing has to be done then."""
    for modcod in (QPSK_1_4, PSK8_3_4, APSK32_9_10):
        outcome = played(program, always(modcod), 1, [Packet(12_345, 0, BE, 100)], 10**6)
        frame_us = 1e6 * modcod.frame_symbols / SYMBOLS
        assert outcome.left_us[0] - 12_345 == pytest.approx(frame_us, abs=0.001)
        counted = outcome.modcods[modcod.slug]
        header = dvbs2.WHOLE_BYTES + LABEL
        assert counted == ModcodCounters(1, 0, 100, header, modcod.frame_bytes - 100 - header)
        assert outcome.next_ns == 2**64 - 1


def air_s(outcome: Outcome, modcod: Modcod) -> float:
    """How long the frames of a MODCOD took."""
    return outcome.modcods[modcod.slug].frames * modcod.frame_symbols / SYMBOLS


@pytest.mark.parametrize(("clear", "faded"), [(APSK16_3_4, QPSK_1_2), (PSK8_3_4, QPSK_1_4)])
def test_a_faded_terminal_takes_air_time_from_the_clear_one(
    program: Path, clear: Modcod, faded: Modcod
) -> None:
    """Both get the same bytes, so the air time is as 1/efficiency of each."""
    until_s = 10
    packets = at_once(0, BE, 15_000) + at_once(1, BE, 15_000)
    outcome = played(program, always(clear, faded), 2, packets, until_s * 10**6)
    bits = [8 * outcome.classes[n, BE].bytes_out for n in (0, 1)]
    rates = [SYMBOLS * one.efficiency * gse_share(one) for one in (clear, faded)]
    each_bps = 1 / sum(1 / one for one in rates)
    print(f"{[one / until_s / 1e6 for one in bits]} Mbit/s each, formula {each_bps / 1e6:.4f}")
    assert bits == pytest.approx([each_bps * until_s] * 2, rel=0.01)
    assert air_s(outcome, faded) == pytest.approx(until_s * each_bps / rates[1], rel=0.01)
    assert air_s(outcome, clear) + air_s(outcome, faded) == pytest.approx(until_s, abs=0.01)


def test_where_time_is_shared_each_has_half_of_it(program: Path) -> None:
    names = f"{APSK16_3_4.slug}/{QPSK_1_2.slug}"
    link = forward(modcod=names, es_n0_db="20", fair="time")
    packets = at_once(0, BE, 15_000) + at_once(1, BE, 15_000)
    outcome = played(program, link, 2, packets, 10**7)
    assert [air_s(outcome, one) for one in (APSK16_3_4, QPSK_1_2)] == pytest.approx(
        [5, 5], rel=0.01
    )


def test_terminals_of_a_modcod_share_frames(program: Path) -> None:
    """Ten small packets of ten terminals are in one frame; of two MODCODs in two."""
    packets = [Packet(0, n, BE, 60) for n in range(10)]
    outcome = played(program, always(PSK8_3_4), 10, packets, 10**6)
    assert outcome.modcods[PSK8_3_4.slug].frames == 1
    assert len(set(outcome.left_us.values())) == 1
    assert {one.frames for one in outcome.terminals} == {1}
    outcome = played(program, always(PSK8_3_4, QPSK_1_2), 10, packets, 10**6)
    assert {name: one.frames for name, one in outcome.modcods.items()} == {
        PSK8_3_4.slug: 1,
        QPSK_1_2.slug: 1,
    }


def test_equal_terminals_of_a_class_get_equal_shares(program: Path) -> None:
    """Whatever the lengths of their packets are."""
    packets: list[Packet] = []
    for n in range(5):
        packets += at_once(n, BE, 40_000 // (n + 1), 300 * (n + 1))
    outcome = played(program, always(PSK8_3_4), 5, packets, 2_000_000)
    shares = [outcome.classes[n, BE].bytes_out for n in range(5)]
    assert max(shares) - min(shares) <= 2 * FULL


def test_one_that_was_silent_has_no_claim(program: Path) -> None:
    """The second terminal begins after 5 s: from then on both get the same."""
    late = [Packet(5_000_000, 1, BE, FULL)] * 15_000
    outcome = played(program, always(PSK8_3_4), 2, at_once(0, BE, 30_000) + late, 10_000_000)
    after = Counter(
        number < 30_000 for number, left_us in outcome.left_us.items() if left_us > 5_010_000
    )
    assert after[True] == pytest.approx(after[False], rel=0.01)


@pytest.mark.parametrize("modcods", [
    [PSK8_3_4], [PSK8_3_4, QPSK_1_2, QPSK_1_4, APSK16_3_4, APSK32_9_10]
])  # fmt: skip
def test_classes_have_strict_priority(program: Path, modcods: list[Modcod]) -> None:
    """All of a class leaves before any of the next one, of other terminals and MODCODs too."""
    kinds = [BE, AF, SIG, EF, NM]
    packets: list[Packet] = []
    for n, kind in enumerate(kinds):
        packets += at_once(n, kind, 200)
    outcome = played(program, always(*modcods), 5, packets, 10**7)
    last = dict.fromkeys(kinds, 0.0)
    first = dict.fromkeys(kinds, 1e12)
    for number, left_us in outcome.left_us.items():
        kind = kinds[number // 200]
        last[kind], first[kind] = max(last[kind], left_us), min(first[kind], left_us)
    # With the same MODCOD the end of one class and the begin of the next one share a frame.
    for above, below in ((NM, EF), (EF, SIG), (SIG, AF), (AF, BE)):
        assert last[above] <= first[below]


def test_a_packet_of_a_high_class_waits_for_two_frames_at_most(program: Path) -> None:
    """For the one that is being sent, and for its own."""
    until_s, each_us = 5, 20_011
    urgent = [Packet(at, 0, EF, 200) for at in range(0, until_s * 10**6 - 10**5, each_us)]
    outcome = played(
        program, always(PSK8_3_4, QPSK_1_2), 2,
        at_once(1, BE, 10_000) + urgent, until_s * 10**6,
    )  # fmt: skip
    numbered = sorted(at_once(1, BE, 10_000) + urgent, key=lambda one: one.time_us)
    waits = [
        outcome.left_us[number] - one.time_us
        for number, one in enumerate(numbered)
        if one.kind == EF
    ]
    own_us, other_us = (1e6 * one.frame_symbols / SYMBOLS for one in (PSK8_3_4, QPSK_1_2))
    assert own_us - 0.1 <= min(waits) and max(waits) <= own_us + other_us + 0.1


# The loop of ACM


def sent_times_us(modcod: Modcod, until_us: float) -> list[float]:
    """When frames of a MODCOD end that follow each other from 0 on."""
    frame_us = 1e6 * modcod.frame_symbols / SYMBOLS
    return [frame_us * n for n in range(1, int(until_us / frame_us) + 1)]


def test_a_fade_loses_the_frames_of_the_loops_delay(program: Path) -> None:
    """At 3 s the terminal falls from 14.5 to 4 dB; frames that it can receive come 1 s later.

    What arrives from 3 s on was sent D before.
    """
    link = forward(loop_ms="1000")
    rows = [(3.0, dvbs2.ALL, 4.0)]
    changes = link.changes(1, D_MS, rows)
    before, after = link.in_clear_sky(0), dvbs2.best(3.5)
    assert before and after
    begin_us, end_us = 1e6 * (3 - D_MS / 1000), 1e6 * (4 - D_MS / 1000)
    outcome = played(program, link, 1, at_once(0, BE, 20_000), 8_000_000, changes)
    lost = outcome.modcods[before.slug].lost_frames
    # A frame that is being sent when the fade begins is lost; the one that is being sent as the MODCOD changes ends.
    ends_us = sent_times_us(before, 8_000_000)
    frame_us = ends_us[0]
    by_formula = sum(begin_us < one and one - frame_us < end_us for one in ends_us)
    print(f"{lost} frames of {frame_us / 1000:.3f} ms lost, formula {by_formula}")
    assert lost == by_formula == outcome.terminals[0].lost_frames
    assert lost * frame_us == pytest.approx(1e6, abs=2 * frame_us)
    assert outcome.modcods[after.slug].lost_frames == 0
    lost_at_us = outcome.lost_us.values()
    # The last packet that lost its begin ends in the first frame of the new MODCOD.
    last_us = frame_us + 1e6 * after.frame_symbols / SYMBOLS
    assert begin_us < min(lost_at_us) and max(lost_at_us) <= end_us + last_us
    # A packet of which any part was in such a frame is lost, and no other.
    counted = outcome.classes[0, BE]
    in_frames = lost * gse_share(before) * before.frame_bytes / FULL
    assert counted.packets_lost == pytest.approx(in_frames, abs=2)
    good = [one for one in outcome.left_us.values() if begin_us + 1 < one < end_us]
    assert not good


def test_a_terminal_that_recovers_loses_nothing(program: Path) -> None:
    """It is sent frames of the robust MODCOD for the loop's delay, and receives them."""
    link = forward()
    rows = [(0.0, dvbs2.ALL, 4.0), (3.0, dvbs2.ALL, 14.5)]
    outcome = played(
        program, link, 1, at_once(0, BE, 20_000), 6_000_000, link.changes(1, D_MS, rows)
    )
    # Up it goes by the hysteresis less than the Es/N0 would allow.
    robust, clear = dvbs2.best(4 - 0.5), dvbs2.best(14.5 - 0.5 - 0.5)
    assert robust and clear and not outcome.lost_us
    assert air_s(outcome, robust) == pytest.approx(4 - D_MS / 1000, abs=0.01)
    assert air_s(outcome, clear) == pytest.approx(2 + D_MS / 1000, abs=0.01)


def test_packets_wait_where_nothing_gets_through(program: Path) -> None:
    """For the outage, the loop and what was lost before it; the other terminal has all of the air."""
    link = forward()
    rows = [(1.0, "0", -10.0), (5.0, "0", 14.5)]
    packets = [Packet(2_500_000, 0, BE, FULL), Packet(2_500_000, 1, BE, FULL)]
    outcome = played(program, link, 2, packets, 10**7, link.changes(2, D_MS, rows))
    clear = link.in_clear_sky(0)
    assert clear
    frame_us = 1e6 * clear.frame_symbols / SYMBOLS
    assert outcome.left_us[1] == pytest.approx(2_500_000 + frame_us, abs=0.01)
    assert outcome.left_us[0] == pytest.approx(6_000_000 - D_MS * 1000 + frame_us, abs=0.01)
    assert outcome.next_ns == 2**64 - 1


def test_a_terminal_that_hears_its_frames_loses_none_of_anothers(program: Path) -> None:
    """Both are in the same frames when one of them fades."""
    link = forward(loop_ms="500")
    packets = at_once(0, BE, 5000) + at_once(1, BE, 5000)
    changes = link.changes(2, D_MS, [(1.0, "1", 6.0)])
    outcome = played(program, link, 2, packets, 10**7, changes)
    assert not outcome.classes[0, BE].packets_lost
    assert outcome.classes[1, BE].packets_lost > 100
    assert outcome.terminals[0].lost_frames == 0 < outcome.terminals[1].lost_frames


def test_an_arrival_while_a_frame_is_sent_is_in_the_next_one(program: Path) -> None:
    frame_us = 1e6 * PSK8_3_4.frame_symbols / SYMBOLS
    packets = [Packet(0, 0, BE, 100), Packet(500, 0, BE, 100)]
    outcome = played(program, always(PSK8_3_4), 1, packets, 10**6)
    assert outcome.left_us[1] == pytest.approx(2 * frame_us, abs=0.01)


def test_packets_that_gse_cannot_carry_in_one_part_are_cut(program: Path) -> None:
    """A length of 12 bits: 4097 bytes with the field itself."""
    outcome = played(program, always(APSK32_9_10), 1, at_once(0, BE, 1, 6000), 10**6)
    counted = outcome.modcods[APSK32_9_10.slug]
    assert counted.used_bytes == 6000
    assert counted.header_bytes == dvbs2.START_BYTES + LABEL + dvbs2.END_BYTES


def test_what_the_kernel_refuses(program: Path) -> None:
    link = always(QPSK_1_2)
    for changes in (
        [Change(5, 0, SENDS, 3), Change(4, 0, SENDS, 3)],
        [Change(0, 1, SENDS, 3)],
        [Change(0, 0, SENDS, SILENT + 1)],
        [Change(0, 0, RECEIVES, 1 << 28)],
        [Change(0, 0, 2, 0)],
    ):
        with pytest.raises(AssertionError, match="wrong"):
            played(program, link, 1, [], 10, changes)


# Conservation


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Forward, int, list[Packet], list[Change], dict[str, int]]:
    """Links with any values and changes, and packets of any kind."""
    terminals = draw(st.integers(1, 6))
    chance = random.Random(draw(st.integers(0, 2**32)))
    link = forward(
        symbols=str(draw(st.sampled_from([50_000, 1_000_003, 30_000_000]))),
        label_bytes=draw(st.sampled_from(dvbs2.LABELS)),
        fair=draw(st.sampled_from(dvbs2.FAIR)),
    )
    queue = {
        "queue_bytes": draw(st.sampled_from([100, 5_000, 1_000_000])),
        "queue_packets": draw(st.sampled_from([1, 20, 10_000])),
    }
    changes = []
    for _ in range(draw(st.integers(0, 40))):
        kind = chance.choice([RECEIVES, SENDS])
        value = chance.randrange(1 << 28 if kind == RECEIVES else SILENT + 1)
        time_us = chance.choice([0, chance.randrange(3_000_000)])
        changes.append(Change(time_us, chance.randrange(terminals), kind, value))
    longest = draw(st.sampled_from([1, 60, 1500, 9000]))
    packets = [
        Packet(
            chance.randrange(0, 2_000_000, draw(st.sampled_from([1, 50_000]))),
            chance.randrange(terminals),
            chance.randrange(5),
            chance.randint(1, longest),
        )
        for _ in range(draw(st.integers(0, 200)))
    ]
    return link, terminals, packets, sorted(changes), queue


def nothing_is_lost_or_made(
    program: Path, scenario: tuple[Forward, int, list[Packet], list[Change], dict[str, int]]
) -> None:
    """In = out + dropped + lost + queued for each class, and each frame is full of what it has."""
    link, terminals, packets, changes, queue = scenario
    outcome = played(program, link, terminals, packets, 4_000_000, changes, queue)
    for (terminal, kind), counted in outcome.classes.items():
        counted.check("forward link", f"{terminal} {kind}")
        own = [one.length for one in packets if (one.terminal, one.kind) == (terminal, kind)]
        assert (counted.packets_in, counted.bytes_in) == (len(own), sum(own))
    gone = [*outcome.left_us, *outcome.lost_us, *outcome.dropped]
    assert len(gone) == len(set(gone))
    assert len(outcome.left_us) == sum(one.packets_out for one in outcome.classes.values())
    assert len(outcome.lost_us) == sum(one.packets_lost for one in outcome.classes.values())
    ordered = sorted(packets, key=lambda one: one.time_us)
    for number, at_us in [*outcome.left_us.items(), *outcome.lost_us.items()]:
        assert at_us > ordered[number].time_us
    for name, one in outcome.modcods.items():
        whole = one.frames * SLUGS[name].frame_bytes
        assert one.used_bytes + one.header_bytes + one.padded_bytes == whole
        assert one.lost_frames <= one.frames
    used = sum(one.used_bytes for one in outcome.modcods.values())
    assert used == sum(one.used_bytes for one in outcome.terminals)
    through = sum(one.bytes_out + one.bytes_lost for one in outcome.classes.values())
    queued = sum(one.bytes_queued for one in outcome.classes.values())
    assert through <= used <= through + queued
    air = sum(one.frames * SLUGS[name].frame_symbols for name, one in outcome.modcods.items())
    longest = max(one.frame_symbols for one in MODCODS)
    assert air <= 4 * link["symbols"] + longest


@pytest.mark.parametrize("examples", [100, pytest.param(500, marks=pytest.mark.nightly)])
def test_nothing_is_lost_or_made(program: Path, examples: int) -> None:
    limits = settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    limits(given(scenario=scenarios())(nothing_is_lost_or_made))(program)
