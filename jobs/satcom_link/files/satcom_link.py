# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job satcom_link: an emulated satellite link between the two interfaces of this host.

Each direction, in this order:

    arrives ──► ingress ──► ifb: tbf (rate) of a queue (buffer)
            ──► forwarding ──► netem (loss) ──► netem (delay) ──► leaves

The bottleneck and its finite buffer come before the delay, as on a satellite link. Losses that the
link itself has (--loss) are in a netem of their own, because netem forgets where it was in a burst
whenever it is changed. With --queue netem, or netem_gro, it is as OpenBACH's own job
tc_configure_link has it:

    arrives ──► ingress ──► ifb: htb (rate) of netem (loss) of netem (delay, limit) ──► leaves

There what waits for the rate has its delay behind it, and what was lost takes none of the rate.
Before the link counts as up it proves itself: rate, delay and loss are measured with packets of the
job's own.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import sys
import syslog
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import collect_agent
import link_proof
from link_qdiscs import (
    FRAME_BYTES,
    Both,
    Burst,
    BurstTimes,
    Counters,
    Direction,
    FragmentCounter,
    Player,
    apply,
    buffer_bytes,
    bursts_of,
    clear,
    counters,
    filter_path,
    forwarding_rules,
    least_mtu,
    queue_limits,
    state_lines,
)

from openbach_jobs import command, constellation, link_file, netem, presets
from openbach_jobs.command import LINKS, change, wait_for
from openbach_jobs.link_file import Change, State
from openbach_jobs.presets import NONE, PRESET, SAME

if TYPE_CHECKING:
    import dama_qdisc
    import dvbs2_qdisc

RUNS_AS_THREAD = True
"""Sign for the guest, which needs no process for this job (openbach_run/guest/threads.py)."""
CONFIGURATION = "/opt/openbach/agent/jobs/satcom_link/satcom_link_rstats_filter.conf"
PLACE = "satellite"
"""Place of this link's losses, of those that --loss-at can name."""
PATH_MTUS = re.compile(r"(inventory|\d+)(/\d+)?(,(inventory|\d+)(/\d+)?)*")
UP = "measured"
"""Alias of the queues' interfaces when the link has proved itself."""
WAIT_LIMIT_S = 600.0
"""Limit of the mode `wait`: a link of 10 s and 32 kbit/s takes over a minute to measure itself; one
that fails ends its own job before."""
PROOF_BPS = 1e6
"""Least rate of a link without one, while its delay and loss are proved."""
SHARES = re.compile(r"[\d.]+:[\w.;=]*(/[\d.]+:[\w.;=]*)*")
SIGNALS = {signal.SIGTERM, signal.SIGINT}
OF_SATELLITE = {
    "--rate": "bit/s of the forward direction, e.g. 10M",
    "--return-rate": "bit/s of the return direction; same: as forward",
    "--delay-ms": "one-way delay, of a link without a constellation",
    "--jitter-ms": "standard deviation of the delay",
    "--reorder": "whether jitter may change the order, no or yes",
    "--loss": "percent of the packets of the forward direction",
    "--return-loss": "percent of those of the return direction; same: as forward",
    "--burst-packets": "mean length of a loss; 1: independent",
    "--buffer": "1BDP (rate times mean RTT), 150kB, 9000B or 100p (packets)",
    "--buffer-bdp": "buffer in BDP",
    "--queue": "fifo, codel, fq_codel or cake; netem: loss and delay come before the rate;"
    " netem_gro: and network cards put packets of TCP together",
}
"""Options that a preset has values for, and their help."""
Options = Mapping[str, tuple[Any, str]]
"""An option's default, by which its type is known, and its help."""
OPTIONS: Options = {
    "--buffer-bytes": ("0", "buffer in bytes; 0: by the other two"),
    "--loss-at": (PLACE, f"where the losses happen; here only for {PLACE}"),
    "--link-file": (NONE, "CSV with rate, delay and loss over time; none: by orbit"),
    "--link-start": (
        link_file.AUTO,
        "where in it the link begins: s, seed, auto (seed above 60 s)",
    ),
    "--icmp-too-big": ("pass", "messages that a packet is too big for a network"),
    "--series-s": (0.0, "seconds between looks at the queues; 0: none"),
}
GROUPS: Mapping[str, Options] = {
    "bursts of loss that last for a time": {
        "--burst-ms": (PRESET, "mean duration of one; none: by --burst-packets"),
    },
    "access to the return link": {
        "--access": (
            PRESET, "assigned: a rate of its own; dama: capacity that a terminal asks for"),
        "--dama-values": (
            PRESET, "of that, in place of the satellite's: cra=100k;rbdc=2M; none: its own"),
        "--shares": (
            NONE, "of terminals with their own, by address:"
            " 10.0.0.2:cra=50k;rbdc=1M/10.0.0.3:weight=2"),
    },
    "frames of the forward link": {
        "--forward": (
            PRESET, "rate: a rate that all terminals share;"
            " dvbs2: frames with a MODCOD for each terminal"),
        "--forward-values": (
            PRESET, "of that, in place of the satellite's: symbols=20M;es_n0_db=14.5/2;"
            " none: its own"),
        "--es-n0-file": (NONE, "CSV with Es/N0 over time; none: as the values say"),
    },
    "what networks beside the link do": {
        "--fragments": (
            "pass", "of IP packets, and packets of which a later network would make some"),
        "--mss-clamp": (
            "terminal", "TCP's segment size fits networks below 1500 bytes, as a terminal sees to"
            " it"),
        "--path-mtus": (
            "inventory", "MTUs of the path's other networks: 1492,1500; inventory/1500: what stands"
            " second"),
    },
}  # fmt: skip
"""Later options, in groups as in the job vpn."""
CHOICES = {
    "--loss-at": netem.PLACES,
    "--icmp-too-big": ("pass", "drop"),
    "--fragments": ("pass", "drop"),
    "--mss-clamp": ("terminal", "none"),
}


def add_options(place: argparse._ActionsContainer, options: Options) -> None:
    """Add options to a parser, or to a group of one."""
    for name, (default, text) in options.items():
        place.add_argument(
            name, type=type(default), choices=CHOICES.get(name), default=default, help=text
        )


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this job's command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "orbit", help="name of a satellite: geo, leo, … (files in the folder satellites)"
    )
    parser.add_argument("forward_interface", help="towards the satellite terminal")
    parser.add_argument("return_interface", help="towards the gateway")
    for name, text in OF_SATELLITE.items():
        parser.add_argument(name, default=PRESET, help=f"{text} (default: the satellite's)")
    add_options(parser, OPTIONS)
    seed = os.environ.get("OPENBACH_RUN_SEED")
    parser.add_argument("--seed", type=int, default=seed, help="of the losses")
    for title, options in GROUPS.items():
        add_options(parser.add_argument_group(title), options)
    parser.add_argument(
        "mode",
        choices=["run", "wait", "listen"],
        help="wait: ends when the link that another one runs is up; listen: lets a PEP at the"
        " terminal ask for return capacity of that link",
    )
    return parser


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments, with the values in force of `presets.DEFAULTS`, and `constellation`."""
    parser = command_line()
    arguments = parser.parse_args(argv)
    if arguments.series_s and not 0.01 <= arguments.series_s <= 3600:
        parser.error(f"series_s is {arguments.series_s:g}: 0, or from 0.01 to 3600 s")
    if arguments.shares != NONE and not SHARES.fullmatch(arguments.shares):
        parser.error(f"shares: {arguments.shares!r} is not like 10.0.0.2:cra=50k/10.0.0.3:weight=2")
    if not PATH_MTUS.fullmatch(arguments.path_mtus):
        parser.error(f"path_mtus: {arguments.path_mtus!r} is not like 1492,inventory/1500")
    try:
        preset = presets.find(arguments.orbit)
        put_in_force(arguments, presets.in_force(vars(arguments), preset), preset)
    except ValueError as error:
        parser.error(str(error))
    arguments.constellation = None if arguments.delay_ms else preset.constellation
    arguments.reconfigurations = preset.reconfigurations
    if arguments.link_file == NONE and preset.link_file:
        arguments.link_file = str(preset.link_file)
    if arguments.queue in presets.BEFORE_RATE and arguments.link_file != NONE:
        parser.error("queue: netem: the losses of a link file could not be told from a full queue")
    return arguments


def put_in_force(arguments: argparse.Namespace, texts: dict[str, Any], preset: Any) -> None:
    """Put values in the place of the texts that are in force. Raises ValueError."""
    for name, text in texts.items():
        leader = presets.FORWARD.get(name, name) if text == SAME else name
        setattr(arguments, name, presets.value(leader, texts[leader]))
    arguments.dama = arguments.dvbs2 = None
    if arguments.access == presets.DAMA:
        arguments.dama = presets.access_of(texts, preset)
        arguments.own_shares = arguments.dama.shares(arguments.shares)
        arguments.return_rate = arguments.dama.most_bps
    if arguments.forward == presets.DVBS2:
        arguments.dvbs2 = presets.forward_of(texts, preset)
        arguments.rate = arguments.dvbs2.most_bps
    if arguments.link_start not in (link_file.AUTO, link_file.BY_SEED):
        start_s = netem.number(arguments.link_start, 0, 1e9, "auto, seed, or a time in s")
        arguments.link_start = repr(start_s)
    if arguments.loss_at != PLACE:
        arguments.loss = arguments.return_loss = 0.0
    arguments.burst_packets = arguments.burst_packets or 1.0
    for loss_pct in (arguments.loss, arguments.return_loss):
        netem.loss_model(loss_pct, arguments.burst_packets)


# What is played


def with_bursts(
    played: Iterator[Change], both: Both, arguments: argparse.Namespace
) -> Iterator[Change | Burst]:
    """Return the changes, and between them the bursts of both directions that last for a time."""
    with_mean_ms = [(direction, bursts_of(direction, arguments)) for direction in both]
    lasting = [(direction, mean_ms) for direction, mean_ms in with_mean_ms if mean_ms]
    if not lasting:
        return played
    import heapq  # not above: other runs need not read it

    played_bursts = [bursts_over_time(direction, mean_ms) for direction, mean_ms in lasting]
    return heapq.merge(played, *played_bursts, key=lambda change: change.time_s)


def bursts_over_time(direction: Direction, mean_ms: float) -> Iterator[Burst]:
    """Yield the begins and ends of a direction's bursts of loss, drawn from the run's seed."""
    from openbach_jobs import bursts

    seed = int.from_bytes(os.urandom(8)) if direction.seed is None else direction.seed
    for time_s, is_bad in bursts.changes(direction.loss_pct, mean_ms, seed):
        yield Burst(time_s, direction.name, is_bad)


def changes(arguments: argparse.Namespace) -> Iterator[Change]:
    """Return the link's state over time, from 0 s on."""
    if arguments.link_file != NONE:
        read = link_file.read(arguments.link_file, arguments.link_start_s)
        delay_ms = arguments.delay_ms
        return (at_delay(change, delay_ms) for change in read) if delay_ms else read
    rates_bps = {"forward": arguments.rate, "return": arguments.return_rate}
    # For the proof of delay and loss, before the rate is what is granted, or that of frames.
    for name, has_none in (("forward", arguments.dvbs2), ("return", arguments.dama)):
        if has_none:
            rates_bps[name] = min(max(rates_bps[name], PROOF_BPS), presets.MOST_BPS)
    if arguments.reconfigurations:
        from openbach_jobs import reconfigurations  # not above: other links have no use for it

        seed = int.from_bytes(os.urandom(8)) if arguments.seed is None else arguments.seed
        orbit = arguments.constellation or arguments.delay_ms
        return reconfigurations.changes(arguments.reconfigurations, seed, rates_bps, orbit)
    if arguments.constellation:
        played = constellation.changes(arguments.constellation)
        return (at_rate(change, rates_bps[change.direction]) for change in played)
    return (
        Change(0.0, name, State(rate, arguments.delay_ms, 0.0)) for name, rate in rates_bps.items()
    )


def start_of(arguments: argparse.Namespace) -> float:
    """Return the time of the link file at which the link begins, in s. Raises LinkFileError."""
    summary = link_file.check(arguments.link_file)
    if summary.begins_by_seed(arguments.link_start):
        seed = int.from_bytes(os.urandom(8)) if arguments.seed is None else arguments.seed
        return netem.mixed(seed) % max(1, round(summary.duration_s * 1000)) / 1000
    start_s = 0.0 if arguments.link_start == link_file.AUTO else float(arguments.link_start)
    if start_s and start_s >= summary.duration_s:
        text = f"link_start is {start_s:g} s, and the file lasts {summary.duration_s:g} s"
        raise link_file.LinkFileError(arguments.link_file, text)
    return start_s


def at_delay(change: Change, delay_ms: float) -> Change:
    """Return the change with this delay."""
    return change._replace(state=change.state._replace(delay_ms=delay_ms))


def at_rate(change: Change, rate: float) -> Change:
    """Return the change with this rate, unless it is an outage."""
    state = change.state
    return change._replace(state=state._replace(rate_bps=rate)) if state.rate_bps else change


def directions(arguments: argparse.Namespace) -> Both:
    """Return both directions. Buffers follow from the first rate above 0 and the mean RTT."""
    if arguments.link_file != NONE:
        summary = link_file.check(arguments.link_file)
        rates_bps = summary.forward.first_rate_bps, summary.back.first_rate_bps
        rtt_ms = summary.mean_rtt_ms if summary.has_delay else 2 * arguments.delay_ms
    else:
        rates_bps = (arguments.rate, arguments.return_rate)
        orbit = arguments.constellation
        rtt_ms = constellation.mean_rtt_ms(orbit) if orbit else 2 * arguments.delay_ms
        if arguments.reconfigurations:
            rtt_ms += arguments.reconfigurations.mean_rtt_ms
    forward, back = arguments.forward_interface, arguments.return_interface
    seeds = (None, None) if arguments.seed is None else (2 * arguments.seed, 2 * arguments.seed + 1)
    return (
        Direction("forward", back, forward, rates_bps[0], rtt_ms, arguments.loss, seeds[0]),
        Direction("return", forward, back, rates_bps[1], rtt_ms, arguments.return_loss, seeds[1]),
    )


def first(played: Iterator[Change]) -> list[Change]:
    """Return the state of each direction at 0 s."""
    return [next(played), next(played)]


def ask_for_the_return_link(direction: Direction, arguments: argparse.Namespace) -> dama_qdisc.Link:
    """Put a queue that has to ask for capacity in place of the return link's rate, and prove it.

    Return the link of that queue. Ends the job if a packet waits for longer than it should.
    """
    import dama_qdisc

    terminals = dama_qdisc.terminals_beyond(
        direction.arrives, Path("/proc/thread-self/net/route").read_text()
    )
    link = dama_qdisc.Link(
        arguments.dama,
        direction.queue,
        arguments.delay_ms,
        terminals,
        queue_limits(direction, arguments.buffer),
        arguments.seed,
        dama_qdisc.with_link_addresses(arguments.own_shares, direction.arrives),
    )
    link.attach()
    measured_ms, longest_ms = link.prove(partial(link_proof.send_one, direction))
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=direction.name,
        measured_access_ms=measured_ms,
        longest_access_ms=longest_ms,
    )
    return link


def frame_the_forward_link(direction: Direction, arguments: argparse.Namespace) -> dvbs2_qdisc.Link:
    """Put frames in place of the forward link's rate, and prove them. Return the link of them.

    Ends the job if a packet does not wait for as long as it should.
    """
    import dvbs2_qdisc

    from openbach_jobs import dvbs2

    routes = Path("/proc/thread-self/net/route").read_text()
    terminals = dvbs2_qdisc.terminals_beyond(direction.leaves, routes)
    if not terminals:
        sys.exit(
            f"{direction.leaves}: no route over it has a gateway, so there is no terminal for the"
            " frames of the forward link"
        )
    rows = [] if arguments.es_n0_file == NONE else dvbs2.read_series(arguments.es_n0_file)
    link = dvbs2_qdisc.Link(
        arguments.dvbs2,
        direction.queue,
        arguments.delay_ms,
        terminals,
        queue_limits(direction, arguments.buffer),
        rows,
    )
    link.attach()
    measured_ms, right_ms = link.prove(partial(link_proof.send_one, direction))
    collect_agent.send_stat(
        collect_agent.now(),
        suffix=direction.name,
        measured_frame_ms=measured_ms,
        asked_frame_ms=right_ms,
    )
    return link


def play(
    player: Player,
    played: Iterator[Change | Burst],
    both: Both,
    series_s: float,
    framed: dvbs2_qdisc.Link | None = None,
) -> None:
    """Change the link and look at its queues, each when it is due, until a signal comes."""
    start_s = time.monotonic()
    upcoming = next(played, None)
    look_s = series_s or math.inf
    while True:
        due_s = min(upcoming.time_s if upcoming else math.inf, look_s)
        if due_s == math.inf:
            signal.sigwait(SIGNALS)
            return
        if signal.sigtimedwait(SIGNALS, max(start_s + due_s - time.monotonic(), 0)):
            return
        while upcoming and upcoming.time_s <= due_s:
            player.change(upcoming)
            upcoming = next(played, None)
        if look_s <= due_s:
            look(both, player.states)
            if framed:
                send(framed.now())
            look_s += series_s


def send(statistics: Mapping[str, Mapping[str, Any]]) -> None:
    """Send statistics by their suffix."""
    for suffix, values in statistics.items():
        collect_agent.send_stat(collect_agent.now(), suffix=suffix, **values)


def look(both: Both, states: dict[str, State]) -> None:
    """Send how full the queues are.

    A packet that comes now waits for those in the queue, at the rate of now; for ever in an outage.
    """
    now_ms = collect_agent.now()
    for name, now in counters(both).items():
        rate_bps, waiting = states[name].rate_bps, now.queue_bytes
        collect_agent.send_stat(
            now_ms,
            suffix=name,
            queue_bytes=waiting,
            queue_packets=now.queue_packets,
            queue_delay_ms=waiting * 8000 / rate_bps if rate_bps and waiting is not None else None,
        )


def without_outage(direction: Direction, state: State) -> State:
    """Return the state; of an outage the one without it, as nothing can be measured in one."""
    if state.rate_bps and state.loss_pct < 100:
        return state
    return state._replace(rate_bps=direction.rate_bps, loss_pct=0.0)


def target(direction: Direction, arguments: argparse.Namespace, state: State) -> link_proof.Target:
    """Return the properties that the proof should find in a direction."""
    limit = buffer_bytes(direction, arguments.buffer)
    in_packets = (
        arguments.queue in ("codel", "fq_codel", *presets.BEFORE_RATE)
        or arguments.buffer.unit == "packets"
    )
    own_pct = 0 if bursts_of(direction, arguments) else direction.loss_pct
    kept = (1 - own_pct / 100) * (1 - state.loss_pct / 100)
    return link_proof.Target(
        state.rate_bps,
        state.delay_ms,
        100 * (1 - kept),
        arguments.jitter_ms,
        arguments.burst_packets,
        limit,
        limit // FRAME_BYTES if in_packets else None,
        netem.bucket_bytes(),
        arguments.queue in presets.BEFORE_RATE,
    )


def report(
    both: Both,
    before: Mapping[str, Counters],
    fragments: Mapping[str, FragmentCounter],
    bursts: Mapping[str, BurstTimes],
) -> None:
    """Send what has passed, been dropped and lost in each direction since `before`."""
    for name, after in counters(both).items():
        statistics: dict[str, float] = {
            "sent_packets": after.sent_packets - before[name].sent_packets,
            "lost_packets": after.lost_packets - before[name].lost_packets,
            "sent_bytes": after.sent_bytes - before[name].sent_bytes,
            "dropped_packets": after.dropped_packets - before[name].dropped_packets,
            "fragments": fragments[name].count(),
        }
        if name in bursts:
            statistics |= {"bursts": bursts[name].count, "bursts_s": bursts[name].total_s}
        send({name: statistics})


def wait() -> None:
    """Wait until the link of this host is up. Ends the job if it does not come up."""

    def alias(interface: str) -> str:
        try:
            return Path(f"/sys/class/net/{interface}/ifalias").read_text().strip()
        except OSError:
            return ""  # it has gone meanwhile

    def is_up() -> bool:
        return UP in map(alias, os.listdir("/sys/class/net"))

    wait_for("no satellite link is up on this host", is_up, WAIT_LIMIT_S, told_by=LINKS)


def check_kernel(arguments: argparse.Namespace) -> None:
    """End the job where the kernel lacks what the link needs."""
    if arguments.dama:
        import dama_qdisc

        dama_qdisc.check_kernel()
    if arguments.dvbs2:
        import dvbs2_qdisc

        dvbs2_qdisc.check_kernel()
    if netem.CLOCK not in os.environ:  # else an engine has looked before the run
        from openbach_jobs import kernel

        own = ["nft"] * bool(arguments.rules) + [kernel.SEED] * (arguments.seed is not None)
        shaper = "htb" if arguments.queue in presets.BEFORE_RATE else "tbf"
        kernel.check([*kernel.LINK, shaper, arguments.queue, *own])


def emulate(arguments: argparse.Namespace) -> None:
    """Play the link until the job is stopped."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        both = directions(arguments)
        arguments.link_start_s = start_of(arguments) if arguments.link_file != NONE else 0.0
    except link_file.LinkFileError as error:
        sys.exit(str(error))
    forward, back = both
    arguments.rules = forwarding_rules(arguments, least_mtu(both, arguments))
    check_kernel(arguments)
    played = changes(arguments)
    states = {change.direction: change.state for change in first(played)}
    without_outages = {
        direction.name: without_outage(direction, states[direction.name]) for direction in both
    }
    try:
        apply(both, arguments, without_outages)
        for direction in both:
            wanted = target(direction, arguments, without_outages[direction.name])
            link_proof.prove(direction, wanted, partial(counters, both))
        if without_outages != states:
            change("tc", lines=[*state_lines(both, arguments, states)])
        granted: dama_qdisc.Link | None = None
        framed: dvbs2_qdisc.Link | None = None
        if arguments.dama:
            granted = ask_for_the_return_link(back, arguments)
            states[back.name] = states[back.name]._replace(rate_bps=0)
        if arguments.dvbs2:
            framed = frame_the_forward_link(forward, arguments)
            states[forward.name] = states[forward.name]._replace(rate_bps=0)
        # After the proofs: their packets are full ones, which a path may drop.
        filter_path(arguments.rules)
        change("ip", lines=[f"link set {direction.queue} alias {UP}" for direction in both])
        collect_agent.send_log(syslog.LOG_INFO, "the link is up")
        if arguments.link_file != NONE:
            collect_agent.send_stat(collect_agent.now(), link_start_s=arguments.link_start_s)
        before = counters(both)
        fragments = {direction.name: FragmentCounter(direction.arrives) for direction in both}
        player = Player(both, arguments, states)
        play(player, with_bursts(played, both, arguments), both, arguments.series_s, framed)
        report(both, before, fragments, player.bursts)
        if granted:
            send(granted.statistics())
        if framed:
            send(framed.statistics())
    finally:
        clear(both, arguments)


def main() -> None:
    """Run the job."""
    arguments = parse()
    if arguments.mode == "listen":
        command.need_process()
        import dama_qdisc

        wait()
        dama_qdisc.listen(arguments.forward_interface)
    elif arguments.mode == "wait":
        wait()
    else:
        emulate(arguments)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
