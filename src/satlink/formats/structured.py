# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurements as JSON: irtt, iperf3, RIPE Atlas, the Starlink dish's history, flent.

Several documents may follow each other in a file, as several runs that were appended make them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from openbach_jobs.link_file import LinkFileError
from satlink.formats import ping as pings_of
from satlink.formats.rates import Rates
from satlink.measured import (
    ANSWERED,
    LOST,
    LOST_FORWARD,
    LOST_RETURN,
    Measured,
    Numbers,
    Options,
    Probes,
    Series,
    one_after_the_other,
    probes_of,
    several,
)

IRTT_LOST = {"false": ANSWERED, "true": LOST, "true_up": LOST_RETURN, "true_down": LOST_FORWARD}
ATLAS_INTERVAL_S = 1.0
"""The time between the packets of one result of RIPE Atlas."""
DISH_PERIOD_S = 1.0
MOST_MS = 1e6
UNDERSTOOD = (
    "irtt (round_trips), iperf3 (intervals), RIPE Atlas (type ping), the dish's history"
    " (popPingLatencyMs), flent (x_values)"
)
PROBLEMS = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


def read(path: Path, text: str, options: Options) -> Measured:
    """Return what a JSON file says. Raises LinkFileError."""
    documents = _documents(path, text)
    first = documents[0]
    for name, (is_it, reader) in READERS.items():
        if is_it(first):
            try:
                return replace(reader(path, documents, options), format=name)
            except LinkFileError:
                raise
            except PROBLEMS as error:
                reason = f"not the JSON of {name}: {type(error).__name__}: {error}"
                raise LinkFileError(path, reason) from error
    raise LinkFileError(path, f"JSON that is not understood; known are {UNDERSTOOD}")


def _documents(path: Path, text: str) -> list[Any]:
    """Return the JSON documents in a text, one after the other; a list's elements of objects."""
    decoder = json.JSONDecoder()
    documents: list[Any] = []
    place, end = 0, len(text)
    while place < end:
        if text[place] in " \t\r\n":
            place += 1
            continue
        try:
            document, place = decoder.raw_decode(text, place)
        except RecursionError as error:
            raise LinkFileError(path, "JSON that is nested too deeply") from error
        except json.JSONDecodeError as error:
            is_cut = error.pos >= end - 1 or "Unterminated" in error.msg
            cut = "it is cut off, or " if is_cut else ""
            raise LinkFileError(path, f"{cut}not JSON: {error.msg}", error.lineno) from error
        except ValueError as error:  # Python reads no whole number of thousands of digits
            raise LinkFileError(path, f"not JSON that can be read: {error}") from error
        documents += document if isinstance(document, list) else [document]
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise LinkFileError(path, f"JSON that is not understood; known are {UNDERSTOOD}")
    return documents


def _unlike(path: Path, documents: Sequence[Any], name: str) -> None:
    """Raise LinkFileError for a document of another format."""
    is_it, _ = READERS[name]
    for number, document in enumerate(documents, 1):
        if not is_it(document):
            reason = f"document {number} is not of {name}, as the first one is: one format a file"
            raise LinkFileError(path, reason)


def _ms(value: Any, what: str) -> float:
    """Return a time in ms. Raises ValueError."""
    number = float(value)
    if not 0 <= number <= MOST_MS:
        raise ValueError(f"{what} is {value}")
    return number


# irtt


def _is_irtt(document: Mapping[str, Any]) -> bool:
    return "round_trips" in document


def _irtt(path: Path, documents: Sequence[Any], options: Options) -> Measured:
    """Return the probes of `irtt client -o`."""
    _unlike(path, documents, "irtt")
    runs = [_irtt_run(document["round_trips"]) for document in documents]
    probes = one_after_the_other(runs)
    start = None
    if len(documents) == 1:
        send = documents[0]["round_trips"][0]["timestamps"]["client"]["send"]
        start = send["wall"] / 1e9 if "wall" in send else None
    return Measured(probes, (), probes.end_s, several(runs, "runs of irtt"), start)


def _irtt_run(trips: Sequence[Any]) -> Probes:
    sent_ns = [trip["timestamps"]["client"]["send"]["monotonic"] for trip in trips]
    lost = [IRTT_LOST[trip["lost"]] for trip in trips]
    rtts_ms = []
    for trip, kind in zip(trips, lost, strict=True):
        rtts_ms.append(math.nan if kind != ANSWERED else _ms(trip["delay"]["rtt"] / 1e6, "an rtt"))
    times_s = (np.array(sent_ns, dtype=np.int64) - sent_ns[0]) / 1e9
    return probes_of(times_s, rtts_ms, lost)


# iperf3


def _is_iperf3(document: Mapping[str, Any]) -> bool:
    return ("intervals" in document and "start" in document) or (
        document.get("event") in ("start", "interval", "end")
    )


def _iperf3(path: Path, documents: Sequence[Any], options: Options) -> Measured:
    """Return the rates of each interval of `iperf3 --json` or `--json-stream`."""
    _unlike(path, documents, "iperf3")
    is_stream = "event" in documents[0]
    whole = [] if is_stream else [(each["start"], each["intervals"]) for each in documents]
    runs = _streamed(documents) if is_stream else whole
    rates = Rates()
    begin_s = 0.0
    for start, intervals in runs:
        if not intervals:
            raise LinkFileError(path, "a run of iperf3 without an interval: it failed, or was cut")
        test = start.get("test_start", {})
        for interval in intervals:
            if interval["sum"].get("omitted"):
                continue
            for name in ("sum", "sum_bidir_reverse"):
                if name not in interval:
                    continue
                stream = interval[name]
                backwards = bool(test.get("reverse")) != (name == "sum_bidir_reverse")
                direction = "forward" if backwards else "return"
                at_s = begin_s + float(stream["start"])
                rate_bps = float(stream["bits_per_second"])
                if not 0 <= rate_bps <= 1e12:
                    raise ValueError(f"bits_per_second is {stream['bits_per_second']}")
                rates.add(direction, at_s, begin_s + float(stream["end"]), rate_bps)
                if stream.get("packets") and "lost_packets" in stream:
                    rates.add_loss(direction, at_s, stream["lost_packets"], stream["packets"])
        begin_s = rates.end_s
    if not rates.rates:
        raise LinkFileError(path, "no interval in it that is not omitted")
    assumed = [
        "the rate of the link is what iperf3 got through in each interval; its RTTs are not taken:"
        " they have its own queue in them",
        "iperf3's client is on the user's side: what it sends is the return direction",
        *several(runs, "runs of iperf3"),
    ]
    begun = runs[0][0].get("timestamp", {}).get("timesecs") if len(runs) == 1 else None
    start_s = None if begun is None else float(begun)
    return replace(rates.measured(path, assumed), start_unix_s=start_s)


def _streamed(documents: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """Return start and intervals of each run of `iperf3 --json-stream`."""
    runs: list[tuple[Any, list[Any]]] = []
    for document in documents:
        if document["event"] == "start":
            runs.append((document["data"], []))
        elif document["event"] == "interval":
            if not runs:
                runs.append(({}, []))
            runs[-1][1].append(document["data"])
    return runs


# RIPE Atlas


def _is_atlas(document: Mapping[str, Any]) -> bool:
    return "prb_id" in document or ("msm_id" in document and "result" in document)


def _atlas(path: Path, documents: Sequence[Any], options: Options) -> Measured:
    """Return the probes of results of type ping of RIPE Atlas, of one of its probes."""
    _unlike(path, documents, "RIPE Atlas")
    wanted = dict(options.only)
    for name in ("prb_id", "msm_id"):
        values = list(dict.fromkeys(str(document.get(name)) for document in documents))
        if name in wanted:
            documents = [each for each in documents if str(each.get(name)) == wanted[name]]
            if not documents:
                raise LinkFileError(path, f"no {name} {wanted[name]}; there are {values[:10]}")
        elif len(values) > 1:
            hint = f"give one with --only {name}={values[0]}"
            raise LinkFileError(path, f"results of {len(values)} {name}: {hint}")
    for document in documents:
        if (kind := document.get("type", "ping")) != "ping":
            reason = f"a result of type {kind}: results of type ping are understood"
            raise LinkFileError(path, reason)
    times_s: list[float] = []
    rtts_ms: list[float] = []
    for document in sorted(documents, key=lambda answer: float(answer["timestamp"])):
        for number, packet in enumerate(document["result"]):
            if "dup" in packet:
                continue
            times_s.append(float(document["timestamp"]) + number * ATLAS_INTERVAL_S)
            rtts_ms.append(_ms(packet["rtt"], "an rtt") if "rtt" in packet else math.nan)
    probes = probes_of(times_s, rtts_ms)
    assumed = [
        f"{len(documents)} results: the packets of one are {ATLAS_INTERVAL_S:g} s apart; between"
        " two results the link is as in the one before",
        "an answer that is `x` or an error is a lost packet",
    ]
    return Measured(probes, (), probes.end_s, assumed, min(times_s))


# The dish


DISH = {
    "popPingLatencyMs": "pop_ping_latency_ms",
    "popPingDropRate": "pop_ping_drop_rate",
    "downlinkThroughputBps": "downlink_throughput_bps",
    "uplinkThroughputBps": "uplink_throughput_bps",
    "current": "current",
}
"""The names in JSON of gRPC's own, and of programs in Python."""


def _history(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("dishGetHistory", "dish_get_history", "response"):
        if isinstance(document.get(name), dict):
            return _history(document[name])
    return document


def _is_dish(document: Mapping[str, Any]) -> bool:
    history = _history(document)
    return "popPingLatencyMs" in history or "pop_ping_latency_ms" in history


def _dish(path: Path, documents: Sequence[Any], options: Options) -> Measured:
    """Return delay and loss of each second of the dish's history (get_history)."""
    if len(documents) > 1:
        raise LinkFileError(path, f"{len(documents)} documents: give a file with one history")
    history = _history(documents[0])
    columns = {name: history.get(name, history.get(other)) for name, other in DISH.items()}
    latencies_ms, drops = _floats(columns["popPingLatencyMs"]), _floats(columns["popPingDropRate"])
    if len(latencies_ms) != len(drops):
        raise ValueError(f"{len(latencies_ms)} latencies, {len(drops)} drop rates")
    size = len(drops)
    count = int(columns["current"]) if columns["current"] is not None else size
    if not 0 < count < 2**63:
        raise ValueError(f"current is {count}")
    # A ring: `current` seconds were written, the newest at (current - 1) modulo its size.
    order = np.arange(max(count - size, 0), count) % size
    latencies_ms, drops = latencies_ms[order], drops[order]
    answered = np.isfinite(latencies_ms) & (latencies_ms > 0) & (drops < 1)
    if not answered.any():
        raise LinkFileError(path, "no second with an answer in the dish's history")
    if np.nanmin(drops) < 0 or np.nanmax(drops) > 1:
        raise ValueError("a drop rate is not from 0 to 1")
    times_s = np.arange(len(order), dtype=np.float64) * DISH_PERIOD_S
    # A drop rate is of round trips: each direction survives with the root.
    lost_pct = 100 * (1 - np.sqrt(1 - np.nan_to_num(drops, nan=1.0)))
    series = [
        Series("delay_ms", "both", times_s[answered], latencies_ms[answered] / 2),
        Series("loss_pct", "both", times_s, np.round(lost_pct, 4)),
    ]
    assumed = [
        "each direction has half of the latency to the point of presence; a direction loses what"
        " makes the drop rate of both",
    ]
    throughputs = {"downlinkThroughputBps": "forward", "uplinkThroughputBps": "return"}
    for name, direction in throughputs.items():
        if options.take_throughput and columns[name] is not None:
            series.append(Series("rate_bps", direction, times_s, _floats(columns[name])[order]))
    if options.take_throughput:
        assumed.append("the rate of the link is the throughput that was used")
    else:
        assumed.append(
            "the dish's throughput is what was used, not what the link could carry: it is left out"
            " (--take-throughput)"
        )
    return Measured(None, tuple(series), len(order) * DISH_PERIOD_S, assumed)


def _floats(values: Any) -> Numbers:
    """Return a list of numbers; `null` and "NaN" are nan."""
    if not isinstance(values, list) or not values:
        raise ValueError("a list of numbers is missing")
    return np.array([math.nan if value is None else float(value) for value in values])


# flent

PING = "Ping (ms)"
VOIP = (
    "the call goes from the user, and its delay needs clocks that agree; the forward direction has"
    " the same delay, and loses nothing"
)


def _is_flent(document: Mapping[str, Any]) -> bool:
    return "x_values" in document and "results" in document


def _flent(path: Path, documents: Sequence[Any], options: Options) -> Measured:
    """Return ping and throughput of a data file of flent."""
    if len(documents) > 1:
        raise LinkFileError(path, f"{len(documents)} documents: give a file with one test")
    document = documents[0]
    x_values = _floats(document["x_values"])
    if len(x_values) < 2 or np.any(np.diff(x_values) <= 0):
        raise ValueError("x_values do not increase")
    times_s: Numbers = np.subtract(x_values, x_values[0], dtype=np.float64)
    results = {name: _floats(row) for name, row in document["results"].items() if row}
    for name, row in results.items():
        if len(row) != len(times_s):
            raise ValueError(f"{len(row)} values of {name}, {len(times_s)} x_values")
    series = []
    assumed = []
    step_s = float(np.median(np.diff(times_s)))
    ping = _ping(path, results, dict(options.only).get("ping"))
    raw = document.get("raw_values", {}).get(ping or "VoIP", [])
    is_one_way = any("size" in answer for answer in raw)
    probes = _flent_probes(path, raw, is_one_way)
    if probes is not None:
        assumed.append(f"the delay is that of {ping or 'VoIP'!r}, with the queue of the test")
        assumed += [VOIP] * is_one_way
    elif ping and (known := np.isfinite(row := results[ping])).any():
        series.append(Series("delay_ms", "both", times_s[known], row[known] / 2))
        assumed.append(
            f"each direction has half of {ping!r}, with the queue that the test itself made; a"
            " value that is missing keeps the one before: the file has no numbers of packets"
            " (raw_values, seq), so what was lost is not known"
        )
    elif "VoIP::delay" in results:
        a_second = 100 if "VoIP::bitrate" in results else 50  # D-ITG, and irtt
        for name, quantity, factor in (
            ("VoIP::delay", "delay_ms", 1.0),
            ("VoIP::loss", "loss_pct", 100 / a_second / step_s),
        ):
            if (known := np.isfinite(row := results.get(name, np.array([np.nan])))).any():
                series.append(Series(quantity, "return", times_s[known], row[known] * factor))
        assumed += [f"VoIP::loss counts packets, {a_second} of which are sent a second", VOIP]
    for word, direction in (("download", "forward"), ("upload", "return")):
        if rate_mbps := _throughput_mbps(results, word):
            names, row = rate_mbps
            known = np.isfinite(row)
            rates_bps = np.where(row[known] * 1e6 < 1000, 0.0, row[known] * 1e6)
            series.append(Series("rate_bps", direction, times_s[known], rates_bps))
            assumed.append(f"the rate {direction} is what the test got through: {names}")
    if not series and probes is None:
        raise LinkFileError(path, "neither a ping, nor a call, nor a throughput in it")
    metadata = document.get("metadata", {})
    start = _unix_s(str(metadata.get("T0") or metadata.get("TIME", "")))
    return Measured(probes, tuple(series), float(times_s[-1]) + step_s, assumed, start)


def _ping(path: Path, results: Mapping[str, Numbers], wanted: str | None) -> str:
    """Return the name of the ping that is taken; "" if there is none. Raises LinkFileError."""
    pings = [name for name in results if name.startswith(PING) and name != f"{PING} avg"]
    if not pings and not wanted:
        return f"{PING} avg" if f"{PING} avg" in results else ""
    if wanted is None and len(pings) > 1 and f"{PING} ICMP" not in pings:
        reason = f"{len(pings)} pings, which may be to different servers: give one with --only"
        raise LinkFileError(path, f"{reason} 'ping={pings[0]}'; there are {', '.join(pings)}")
    ping = wanted or next((name for name in pings if name == f"{PING} ICMP"), pings[0])
    if ping not in results:
        raise LinkFileError(path, f"no {ping!r} in it; there are {', '.join(pings)}")
    return ping


def _flent_probes(path: Path, raw: Sequence[Mapping[str, Any]], is_one_way: bool) -> Probes | None:
    """Return the packets of one of a file's raw values; None if these have no numbers.

    D-ITG's have a size, and go from client to server only: their delay is that of one way.
    """
    numbered = [answer for answer in raw if "seq" in answer]
    run = pings_of.Run()
    for answer in numbered:
        number = int(answer["seq"])
        run.unanswered = max(run.unanswered, number)
        if not answer.get("lost") and number not in run.seen:
            rtt_ms = float(answer["val"]) * (2 if is_one_way else 1)
            if rtt_ms < 0:
                raise LinkFileError(path, "a delay is below 0: the two clocks did not agree")
            run.add(number, float(answer["t"]), _ms(rtt_ms, "val"))
    if not run.numbers:
        return None
    probes = pings_of.sent_by(path, run, None)
    lost = probes.lost.copy()
    for answer in numbered:
        if answer.get("lost_dir") and (place := int(answer["seq"]) - min(run.numbers)) >= 0:
            lost[place] = LOST_RETURN if answer["lost_dir"] == "up" else LOST_FORWARD
    return replace(probes, lost=np.where(lost * is_one_way, LOST_RETURN, lost).astype("i1"))


def _throughput_mbps(results: Mapping[str, Numbers], word: str) -> tuple[str, Numbers] | None:
    """Return the name and the sum of all TCP or UDP streams of one direction."""
    for name in (f"TCP {word} sum", f"UDP {word} sum"):
        if name in results and np.isfinite(results[name]).any():
            return name, results[name]
    left_out = ("avg", "sum", "totals", "::")
    names = []
    for name in results:
        is_stream = word in name.lower() and name.split()[0] in ("TCP", "UDP")
        if is_stream and not any(word in name for word in left_out):
            names.append(name)
    if not names:
        return None
    rows = np.array([results[name] for name in names])
    total = np.where(np.isfinite(rows).any(axis=0), np.nansum(rows, axis=0), np.nan)
    return " + ".join(names), total


def _unix_s(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


Reader = Callable[[Path, Sequence[Any], Options], Measured]
READERS: dict[str, tuple[Callable[[Mapping[str, Any]], bool], Reader]] = {
    "irtt": (_is_irtt, _irtt),
    "iperf3": (_is_iperf3, _iperf3),
    "RIPE Atlas": (_is_atlas, _atlas),
    "the Starlink dish": (_is_dish, _dish),
    "flent": (_is_flent, _flent),
}
