# SPDX-License-Identifier: GPL-3.0-or-later
"""The least time that a transfer can take at its rate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from openbach_jobs import presets
from openbach_run.catalog import Catalog, with_base
from openbach_run.units import number

if TYPE_CHECKING:
    from openbach_run.results.record import Record

TIME, RECEIVED, TOO_SHORT = "transfer_time_s", "bytes", "too_short_by_s"
"""Columns: the measures of a transfer, and how much shorter it took than its link allows."""
NOTED_SHARE = 0.01
"""Share of the size that may come on top of it before a note says so."""
FRAME_BYTES, SEGMENT_BYTES = 1514, 1448
BUFFER_BYTES = 16 << 20
"""The largest buffer of the end hosts' TCP by default (the job transport_profile)."""
WINDOW = 5 / 8
"""The share of a receive buffer that Linux offers as a window, for segments of 1448 bytes."""
UNSCALED_BYTES = 65535


def least_transfer_time_s(arguments: Mapping[str, str]) -> float | None:
    """Return the time in s that the data of a scenario needs at the rate of its direction.

    It is longer where the windows bind. `arguments` give the size and the rate. The data is sent in
    full TCP segments: 1448 bytes of data in a frame of 1514. The delay of the first window is left
    out, because where it counts depends on whose clock measures: the receiver of a download starts
    it when the sender's first packet is on its way.
    None if there is no size, or no rate of its own: that of a link file, and of one of our
    satellites with steps of the rate, changes with time.
    """
    preset = _preset(arguments.get("orbit", ""))
    if preset and rate_steps(preset):
        return None
    size, rate_bps = number(arguments.get("size", "")), number(rate_of(arguments))
    if not size or not rate_bps:
        return None
    by_rate_s = size * 8 / rate_bps * FRAME_BYTES / SEGMENT_BYTES
    return max(by_rate_s, window_of(arguments)[2])


def too_short_by_s(record: Record, with_steps: Collection[str] = ()) -> float:
    """Return by how many s a transfer took less than its link allows for the bytes that came.

    0 if it took as long. The clock of such a measure starts after the first packets of the data.
    A rate that changes is at most MOST_BPS; `with_steps` are the satellites of others that have it.
    """
    lacking_s = [0.0]
    preset = _preset(record.arguments.get("orbit", ""))
    has_steps = record.arguments.get("orbit") in with_steps
    changes = (
        has_steps
        or record.arguments.get("link_file", "none") != "none"
        or (preset is not None and (rate_steps(preset) or bool(preset.forward)))
    )
    for name, time_s in record.measures.items():
        # Of several flows each has a name in front.
        if name.endswith(TIME) and time_s is not None:
            received = record.measures.get(name.removesuffix(TIME) + RECEIVED)
            size = str(received or record.arguments.get("size", ""))
            least_s = (
                None if has_steps else least_transfer_time_s({**record.arguments, "size": size})
            )
            if least_s is None and changes:
                least_s = (number(size) or 0) * 8 / presets.MOST_BPS * FRAME_BYTES / SEGMENT_BYTES
            lacking_s.append((least_s or 0.0) - time_s)
    return max(lacking_s)


def notes(
    records: Sequence[Record], swept: Sequence[str] = (), with_steps: Collection[str] = ()
) -> list[str]:
    """Return notes on transfers that are too short, of two clocks, or of more than their size.

    The worst one has its values of `swept`.
    """
    finished = [record for record in records if record.finished]
    done = [record for record in finished if record.measures.get(TIME) is not None]
    lines = []
    short = [(too_short_by_s(record, with_steps), record) for record in done]
    if short := [pair for pair in short if pair[0]]:
        most_s, worst = max(short, key=itemgetter(0))
        values = " ".join(
            f"{name}={worst.arguments[name]}" for name in swept if name in worst.arguments
        )
        lines.append(
            f"WARNING: {len(short)} times are shorter than the rate allows, by up to"
            f" {1000 * most_s:.3g} ms{f' ({values})' if values else ''}: the"
            f" clock starts after the first packets (column {TOO_SHORT}; docs/limitations.md)"
        )
    tools = {(record.scenario, record.arguments.get("http", "none") == "none") for record in done}
    if len(tools) > len(dict(tools)):
        lines.append(
            "WARNING: two clocks: with http, curl's starts three round trips earlier than iperf3's"
            " without (http=3: two); compare only times of the same tool (docs/limitations.md)"
        )
    shares: dict[float, str] = {}
    for record in done:
        size, received = number(record.arguments.get("size", "")), record.measures.get(RECEIVED)
        if size and received and number(record.arguments.get("duration_s", "0")) == 0:
            shares[received / size - 1] = f"{received} bytes came for a size of {size:.0f}"
    if shares and max(shares) >= NOTED_SHARE:
        lines.append(f"up to {shares[max(shares)]}, and count in the time (column {RECEIVED})")
    return lines


def window_of(arguments: Mapping[str, str]) -> tuple[float, float, float]:
    """Return the end hosts' window in bytes, the round trip in s, and the least time by them in s.

    The time is 0 where they are not what counts, or unknown: a proxy and QUIC have windows of their
    own. The first window comes without a round trip.
    """
    of_proxy = arguments.get("pep", "none") != "none" or ends_tcp(arguments.get("vpn", "none"))
    delay_ms = number(arguments.get("delay_ms", ""))
    size, buffer = number(arguments.get("size", "")), arguments.get("tcp_buffer", "")
    buffer_bytes = BUFFER_BYTES if buffer == "default" else number(buffer)
    if of_proxy or arguments.get("http") == "3" or not (size and delay_ms and buffer_bytes):
        return 0.0, 0.0, 0.0
    largest = UNSCALED_BYTES if arguments.get("window_scaling") == "off" else buffer_bytes * WINDOW
    rtt_s = (delay_ms + (number(arguments.get("terrestrial_ms", "")) or 0)) / 500
    in_flight = largest * (number(arguments.get("streams", "")) or 1)
    return largest, rtt_s, (size / in_flight - 1) * rtt_s


@lru_cache
def ends_tcp(vpn: str) -> bool:
    """Return whether a VPN of this checkout ends TCP connections."""
    folders = Catalog().all("vpn-configs")
    return vpn in folders and bool(with_base(folders[vpn], folders).get("ends_tcp"))


@lru_cache
def _preset(orbit: str) -> presets.Preset | None:
    """Return one of our satellites; None for another one."""
    try:
        return presets.find(orbit)
    except presets.PresetError:
        return None


def rate_steps(preset: presets.Preset) -> bool:
    """Return whether a satellite has steps of the rate."""
    grid = preset.reconfigurations
    return grid is not None and grid.rate_sd_pct > 0


def rate_of(arguments: Mapping[str, str]) -> str:
    """Return the rate, as it was given, of the direction of a transfer; "" if there is none."""
    if arguments.get("link_file", "none") != "none":
        return ""
    if arguments.get("direction") == "upload" and arguments.get("return_rate", "same") != "same":
        return arguments["return_rate"]
    return arguments.get("rate", "")
