# SPDX-License-Identifier: GPL-3.0-or-later
"""BBRv2 and BBRv3: behaviours of their authors' code (v2alpha and v3).

They are seen in `ss -ti`, in queues and in transfer times. Sections are those of
draft-ietf-ccwg-bbr, which describes most of them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median

import pytest
from helpers.guest_runs import REPOSITORY, Run, RunCells, command
from helpers.scenario_with import Job, Snapshot, all_ran, ran, scenario_of, with_snapshot

CONTROLS = ("bbr2", "bbr3")
PERIOD_S = 0.1
RTT_S = 0.5
LINK_BPS = 10e6
PROBE_WAIT_S = 2  # the least between two probes by the clock
SHALLOW = ("loss=0", "buffer_bdp=0.1", "size=40M")
STATES = {  # pacing gain, cwnd gain → state of section 5.1.1
    (2.887, 2.887): "Startup",
    (2.773, 2.0): "Startup",
    (0.344, 2.887): "Drain",
    (0.344, 2.0): "Drain",
    (0.75, 2.0): "Down",
    (0.906, 2.0): "Down",
    (1.0, 2.0): "Cruise",  # or Refill, whose gains are the same
    (1.25, 2.0): "Up",
    (1.25, 2.25): "Up",
    (1.0, 1.0): "ProbeRTT",
}
"""The first of two is bbr2's."""


@dataclass(frozen=True)
class Seen:
    """One look at the sender, `time_s` after the first one.

    It has state, delivery rate, window and smoothed round-trip time.
    """

    time_s: float
    state: str
    rate_bps: float
    cwnd: int
    rtt_ms: float


Watch = Callable[..., list[Seen]]


@pytest.fixture(params=CONTROLS)
def cc(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Watch:
    """What the sender's socket shows every 0.1 s of a download.

    `on_sat`: a command for the link, and when.
    """
    done: dict[tuple[object, ...], list[Seen]] = {}

    def run(
        cc: str, *settings: str, seconds: int = 20, on_sat: tuple[int, str] | None = None
    ) -> list[Seen]:
        key = (cc, settings, seconds, on_sat)
        if key not in done:
            place = tmp_path_factory.mktemp(cc)
            look = "cut -d\\  -f1 /proc/uptime; ss -tinHO state established sport = :5201"
            loop = f"for i in `seq {round(seconds / PERIOD_S)}`; do {look}; sleep {PERIOD_S}; done"
            snapshots = [("server", 0, loop), *([("sat", *on_sat)] if on_sat else [])]
            seen = download(place, cc, settings, *snapshots)
            printed = max((line["printed"] for line in seen.statistics("snapshot")), key=len)
            done[key] = list(looks(printed))
        return done[key]

    return run


def download(
    place: Path,
    cc: str,
    settings: Sequence[str],
    *snapshots: Snapshot,
    first: Sequence[tuple[str, str]] = (),
) -> Run:
    """One download, and commands beside it and before it."""
    place.mkdir(exist_ok=True)
    scenario = with_snapshot(place, *snapshots, first=first)
    return ran(scenario, place / "r", "vpn=none", f"cc={cc}", *settings, "--seeds", "1")


LOOKED_AT = (r"delivery_rate (\d+)bps", r"cwnd:(\d+)", r" rtt:([\d.]+)")


def looks(printed: str) -> list[Seen]:
    """The data connection's lines.

    The one that has sent more than iperf3's control connection does.
    """
    seen: list[Seen] = []
    time_s = 0.0
    for line in printed.splitlines():
        if re.fullmatch(r"[\d.]+", line):
            time_s = float(line)
        elif (sent := re.search(r"bytes_sent:(\d+)", line)) and int(sent[1]) > 10_000:
            rate_bps, cwnd, rtt_ms = (number(line, pattern) for pattern in LOOKED_AT)
            seen.append(Seen(time_s, state(line), rate_bps, int(cwnd), rtt_ms))
    return [replace(one, time_s=one.time_s - seen[0].time_s) for one in seen]


def number(line: str, pattern: str) -> float:
    found = re.search(pattern, line)
    return float(found[1]) if found else 0.0


def state(line: str) -> str:
    gains = number(line, r"pacing_gain:([\d.]+)"), number(line, r"cwnd_gain:([\d.]+)")
    (name,) = [name for known, name in STATES.items() if known == pytest.approx(gains, abs=0.01)]
    return name


def periods(seen: list[Seen]) -> list[tuple[str, float, float]]:
    """State, begin and length in s, one after the other."""
    groups = [(name, list(group)) for name, group in groupby(seen, key=lambda one: one.state)]
    return [
        (name, group[0].time_s, group[-1].time_s - group[0].time_s + PERIOD_S)
        for name, group in groups
    ]


def test_startup_reaches_the_links_rate_and_ends_on_a_plateau(watch: Watch, cc: str) -> None:
    """5.3.1.2: doubles every round.

    Ends three rounds after the bandwidth has stopped to grow by a quarter.
    """
    seen = watch(cc, "loss=0")
    first = next(one.time_s for one in seen if one.rate_bps > 0.9 * LINK_BPS * 1448 / 1514)
    doublings = 6  # from 10 packets in 500 ms to 430
    assert first <= (doublings + 3) * RTT_S  # pacing lags by one round, the measured rate by two
    (startup, _, length_s), *_ = periods(seen)
    assert startup == "Startup"
    assert (
        first < length_s <= first + 3 * 2 * RTT_S + PERIOD_S
    )  # a buffer of one BDP doubles the RTT


def test_drain_empties_the_queue_within_three_rounds(watch: Watch, cc: str) -> None:
    """5.3.2: the queue is empty soon."""
    (drain,) = [
        length_s
        for name, _, length_s in periods(watch(cc, *SHALLOW, seconds=30))
        if name == "Drain"
    ]
    assert drain <= 3 * RTT_S


def test_probe_rtt_comes_after_five_seconds_and_halves_the_window(watch: Watch, cc: str) -> None:
    """5.3.4: not before 5 s without a lower RTT, with half a BDP in flight.

    It takes 200 ms and a round at least.
    """
    seen = watch(cc, "loss=0")
    probes = [
        (begin_s, length_s) for name, begin_s, length_s in periods(seen) if name == "ProbeRTT"
    ]
    assert probes
    assert probes[0][0] >= 5 - RTT_S
    assert all(later - earlier >= 5 for (earlier, _), (later, _) in pairwise(probes))
    assert all(length_s >= 0.2 for _, length_s in probes[:-1])
    bdp_packets = LINK_BPS * RTT_S / 8 / 1514
    assert min(one.cwnd for one in seen if one.state == "ProbeRTT") == pytest.approx(
        bdp_packets / 2, rel=0.1
    )


def test_probe_bw_goes_up_and_comes_down(watch: Watch, cc: str) -> None:
    """5.3.3: Cruise or Refill, then Up, then Down."""
    seen = watch(cc, *SHALLOW, seconds=30)
    order = [name for name, _, _ in periods(seen) if name != "ProbeRTT"]
    ups = [place for place, name in enumerate(order) if name == "Up"]
    assert ups
    assert all(order[place - 1] == "Cruise" for place in ups)
    assert "Down" in order[ups[0] :]


def test_startup_ends_on_losses(watch: Watch, cc: str) -> None:
    """5.3.1.3: a buffer of 5 % of the BDP overflows in Startup.

    It ends without waiting for the plateau.
    """
    lossy = periods(watch(cc, "loss=0", "buffer_bdp=0.05", "size=10M"))[0]
    patient = periods(watch(cc, "loss=0"))[0]
    assert lossy[0] == patient[0] == "Startup"
    assert lossy[2] < patient[2]


@pytest.mark.parametrize("scenario", ["geo_loss", "leo_loss"])
def test_a_flow_alone_leaves_the_queue_empty(run_cells: RunCells, cc: str, scenario: str) -> None:
    """2.2, 5.6.2: paced 1 % below the bandwidth, in payload as TCP paces.

    In whole packets it would be 2.6 % above.
    """
    (run,) = run_cells(scenario, "vpn=none", f"cc={cc}", "loss=0", f"series_s={PERIOD_S}")
    sent = [
        line["_metadata"]["time"]
        for line in run.statistics("tcp_series")
        if line.get("goodput_bps")
    ]
    looked = [line for line in run.statistics("satcom_link") if "queue_delay_ms" in line]
    after_startup = [
        line["queue_delay_ms"]
        for line in looked
        if line["_metadata"]["suffix"] == "forward"
        and sent[0] + 8000 <= line["_metadata"]["time"] <= sent[-1]
    ]
    assert len(after_startup) > 10 / PERIOD_S
    assert median(after_startup) <= 3


def test_the_round_trip_is_that_of_the_path_while_it_cruises(watch: Watch, cc: str) -> None:
    """5.6.2: no queue stands."""
    round_trips = [
        one.rtt_ms for one in watch(cc, "loss=0") if one.state == "Cruise" and one.time_s > 10
    ]
    assert median(round_trips) < RTT_S * 1000 + 3


def test_a_probe_of_bbr2_ends_when_the_bandwidth_does_not_grow(watch: Watch) -> None:
    """With a quarter more than the BDP in flight, which takes a round, as in v2alpha.

    (bbr3's takes three rounds: CHECKS. As with v3, the next ProbeRTT comes before.)
    """
    seen = periods(watch("bbr2", "loss=0", "size=40M", seconds=40))
    ended = [
        length_s
        for (name, _, length_s), (after, _, _) in pairwise(seen)
        if (name, after) == ("Up", "Down")
    ]
    assert len(ended) > 2
    assert RTT_S - PERIOD_S <= median(ended) < 2 * RTT_S + PERIOD_S


def test_after_a_probe_that_went_too_high_the_next_one_is_cautious(watch: Watch, cc: str) -> None:
    """5.3.3.6: in a buffer of a tenth of the BDP a probe loses packets.

    The next ends within a round, as soon as it gets to where that one was, and since it has lost
    nothing another one follows at once, which is not: it lasts until it loses.
    """
    # At 250 ms bbr3's second probe begins on a tie with the end of a round, and takes 0.8 s; at 249,
    # 251 and 252 ms it takes 0.2 or 0.3 s.
    seen = periods(watch(cc, *SHALLOW, "delay_ms=251", seconds=30))
    first_s, second_s, *_ = [length_s for name, _, length_s in seen if name == "Up"]
    assert second_s < RTT_S < first_s
    # A probe that loses at once is too short to be seen: Down follows on Refill.
    waits = [
        length_s
        for (name, _, length_s), (after, _, _) in pairwise(seen)
        if name == "Cruise" and after in ("Up", "Down")
    ]
    assert min(waits) < PROBE_WAIT_S / 2 < max(waits)


ECN = [("pc", "sysctl -qw net.ipv4.tcp_ecn=1")]
MARK = "tc qdisc change dev to_st root handle 2: netem limit 100000 delay 250ms loss 1% ecn"


def test_ce_marks_are_ignored_on_a_long_path(tmp_path: Path, cc: str) -> None:
    """Above 5 ms, and below unless ecn_enable is set (CHECKS).

    A CUBIC flow with these marks needs three times as long.
    """
    times = {}
    for name, control, first in (
        ("unmarked", cc, []),
        ("marked", cc, ECN),
        ("cubic", "cubic", ECN),
    ):
        commands = [("sat", 0, MARK)] if first else []
        run = download(tmp_path / name, control, ["loss=0", "size=10M"], *commands, first=first)
        times[name] = float(run.row["transfer_time_s"])
    assert times["marked"] < 1.1 * times["unmarked"] < times["cubic"] / 3


RATE_CHANGE = "tc qdisc change dev q_forward root handle 1: tbf rate {}mbit burst 1540 limit 625000"


def settled(seen: list[Seen], begin_s: float, end_s: float) -> float:
    rates = sorted(one.rate_bps for one in seen if begin_s <= one.time_s <= end_s)
    return rates[len(rates) // 2]


def test_it_follows_a_bandwidth_that_falls_by_ten(watch: Watch, cc: str) -> None:
    """5.5.2: the filter forgets a bandwidth of two cycles ago."""
    seen = watch(cc, "loss=0", "size=15M", seconds=40, on_sat=(8, RATE_CHANGE.format(1)))
    assert settled(seen, 30, 40) == pytest.approx(1e6 * 1448 / 1514, rel=0.1)


def test_it_finds_a_bandwidth_that_rises_by_ten(tmp_path: Path, watch: Watch, cc: str) -> None:
    """5.3.3.6: inflight_hi and the bandwidth filter grow exponentially while it probes up."""
    slow_then_fast = f"{RATE_CHANGE.format(1)}; sleep 15; {RATE_CHANGE.format(10)}"
    seen = watch(cc, "loss=0", "size=30M", seconds=60, on_sat=(0, slow_then_fast))
    assert settled(seen, 8, 12) == pytest.approx(1e6 * 1448 / 1514, rel=0.15)
    assert settled(seen, 40, 50) > 0.8 * LINK_BPS


def test_losses_below_the_threshold_hardly_matter_and_above_they_do(
    run_cells: RunCells, cc: str
) -> None:
    """2.8, 5.5.10: 2 % in a round. Median of three seeds."""
    times: dict[str, list[float]] = {}
    for run in run_cells("geo_loss", "vpn=none", f"cc={cc}", "loss=0,0.5,5", "size=10M", seeds="3"):
        times.setdefault(run.row["loss"], []).append(float(run.row["transfer_time_s"]))
    none, below, above = (sorted(times[loss])[1] for loss in ("0", "0.5", "5"))
    assert below < 1.5 * none
    assert above > 3 * none


POLICE = "police rate 5mbit burst 32k conform-exceed drop/continue"
POLICER = f"tc filter add dev to_gw ingress pref 1 protocol ip matchall action {POLICE}"


def test_behind_a_policer_it_sends_at_the_policed_rate(tmp_path: Path, cc: str) -> None:
    """5.5.6.2: a policer has no queue that would show, only losses.

    What is in flight goes back when they pass 2 %.

    A probe has lost more by then (a quarter of the window, for a round trip, every few seconds),
    but less than BBRv1 loses.
    """
    lost = {}
    for control in (cc, "bbr"):
        run = download(tmp_path / control, control, ["loss=0"], ("sat", 0, POLICER))
        assert 0.8 * 5 < float(run.row["goodput_mbps"]) < 5 * 1448 / 1514
        lost[control] = float(run.row["retransmits"]) * 1448 / float(run.row["bytes"])
    assert lost[cc] < min(0.05, lost["bbr"])


CHECKS = REPOSITORY / "tests/guest/controls/tcp_checked.c"


def test_the_cases_that_a_transfer_seldom_meets(tmp_path: Path, cc: str) -> None:
    """CHECKS, loaded into the guest as a congestion control that has `cc`'s source in it.

    The kernel takes the module only if what it does with a socket is right in each case, and the
    run's error names those in which it is not.
    """
    shipped = REPOSITORY / "library/congestion-controls" / cc
    folder = tmp_path / "mine/congestion-controls/checked"
    shutil.copytree(shipped, folder, ignore=lambda *_: [f"tcp_{cc}.c"])
    shutil.copy(shipped / f"tcp_{cc}.c", folder / "control.h")
    shutil.copy(CHECKS, folder)
    asked = [
        "vpn=none",
        "cc=checked",
        "size=100k",
        "--with",
        str(tmp_path / "mine"),
        "--results",
        str(tmp_path / "r"),
    ]
    ended = command("geo", *asked)
    assert ended.returncode == 0, ended.stderr


CHAOS_STEP_S = 2


def chaos(number: int) -> str:
    """What the link does for CHAOS_STEP_S.

    Another delay, jitter, loss, rate; with duplicates and reordering.
    """
    device, delay_ms = ("to_st", "to_gw")[number % 2], 10 + 10 * (number % 4)
    netem = (
        f"limit 100000 delay {delay_ms}ms {delay_ms // 4}ms loss {number % 7}% duplicate 1%"
        " reorder 5%"
    )
    rate = RATE_CHANGE.format((10, 2, 5)[number % 3])
    return (
        f"tc qdisc change dev {device} root handle 2: netem {netem} && {rate} && sleep"
        f" {CHAOS_STEP_S}"
    )


@pytest.mark.parametrize("cc", [*CONTROLS, "bbr3_resume", "cubic_resume"])
def test_a_thousand_short_transfers_over_a_link_that_changes(tmp_path: Path, cc: str) -> None:
    """1 byte to 200 kB each, 8 at a time.

    None hangs, all bytes are right; a complaint of the kernel would fail the run.
    """
    steps = 60
    link = {"orbit": "geo", "forward_interface": "to_st", "return_interface": "to_gw"}
    jobs = [
        Job("sat", "satcom_link", {**link, "run": {}}),
        Job("sat", "satcom_link", {**link, "wait": {}}, launched=[0]),
        Job("pc", "transport_profile", {"cc": cc}),
        Job("server", "transport_profile", {"cc": cc}),
        Job("server", "downloads", {"server": {}}, launched=[2, 3]),
        Job("sat", "snapshot", {"command": " && ".join(map(chaos, range(steps)))}, finished=[1]),
        Job(
            "pc",
            "downloads",
            {"client": {"server_ip": "192.168.20.2", "count": 1000, "at_once": 8}},
            launched=[4, 5],
        ),
    ]
    runs = all_ran(scenario_of(tmp_path, *jobs), tmp_path / "r", "--seeds", "3")
    assert [run.statistic("downloads", "downloads") for run in runs] == 3 * [1000]
    assert all(run.statistic("downloads", "duration_s") > steps * CHAOS_STEP_S for run in runs)
