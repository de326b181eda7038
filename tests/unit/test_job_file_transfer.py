# SPDX-License-Identifier: GPL-3.0-or-later
"""The job file_transfer: the reason of a transfer that has failed."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from openbach_jobs import iperf3_test

stall = importlib.import_module("stall")
transfer = importlib.import_module("file_transfer")


def written(directory: Path, *events: tuple[str, dict[str, object]]) -> Path:
    """A qlog with a frame in each packet, and its last line cut off."""
    lines = [
        json.dumps({"name": f"transport:packet_{name}", "data": {"frames": [frame]}})
        for name, frame in events
    ]
    (directory / "one_client.sqlog").write_text("\x1e" + "\n\x1e".join([*lines, '{"name": "tr']))
    return directory


def limit(offset: int, stream: int = 0) -> tuple[str, dict[str, object]]:
    return "sent", {"frame_type": "max_stream_data", "stream_id": stream, "maximum": offset}


def came(offset: int, length: int) -> tuple[str, dict[str, object]]:
    stream = {"frame_type": "stream", "stream_id": 0, "offset": offset}
    return "received", {**stream, "payload_length": length, "length": 4}


def test_a_lost_limit_of_a_stream_is_named(tmp_path: Path) -> None:
    events = [limit(1000), limit(5_000_000, 2), came(0, 900), limit(9000), limit(12000)]
    said = stall.reason(written(tmp_path, *events))
    assert "up to the offset 1000;" in said
    assert "has told 2 higher limits (MAX_STREAM_DATA), up to 12000, in packets that were" in said
    blocked = "received", {"frame_type": "stream_data_blocked", "stream_id": 0, "limit": 1000}
    told = stall.reason(written(tmp_path, *events, blocked))
    assert "up to the offset 1000 and says so (STREAM_DATA_BLOCKED)" in told


def test_a_lost_limit_of_the_connection_is_named(tmp_path: Path) -> None:
    def raised(size: int) -> tuple[str, dict[str, object]]:
        return "sent", {"frame_type": "max_data", "maximum": size}

    assert "1 higher limits (MAX_DATA)" in stall.reason(
        written(tmp_path, limit(9000), came(0, 1000), raised(1000), raised(2000))
    )


def test_what_no_limit_explains_is_told_as_it_is(tmp_path: Path) -> None:
    said = stall.reason(written(tmp_path, limit(9000), came(0, 900)))
    assert said == "900 bytes came, of 9000 that the receiver allows"


def test_a_receiver_without_data_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LOOK_S", 0.01)
    monkeypatch.setattr(transfer, "STALL_S", 0.05)
    monkeypatch.setattr(transfer, "counted", lambda protocol, name: 7)
    done = transfer.received_quic([sys.executable, "-c", "import time; time.sleep(60)"], {})
    assert done.error == "ended by this job" and done.still_s >= 0.05
    monkeypatch.setattr(transfer, "STALL_S", 60)
    done = transfer.received_quic([sys.executable, "-c", "print(1)"], {})
    assert (done.printed, done.error) == ("1\n", "")


def test_a_receiver_with_data_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "LOOK_S", 0.01)
    monkeypatch.setattr(transfer, "STALL_S", 0.05)
    datagrams = iter(range(0, 10**6, 3))
    monkeypatch.setattr(transfer, "counted", lambda protocol, name: next(datagrams))
    done = transfer.received_quic([sys.executable, "-c", "import time; time.sleep(0.3)"], {})
    assert not done.error


@pytest.mark.parametrize(
    "error",
    [
        "control socket has closed unexpectedly",
        "error - unable to write to stream socket: Connection timed out",
    ],
)
def test_a_connection_that_linux_gave_up_is_told_of(error: str) -> None:
    said = iperf3_test.failure(error)
    assert said.startswith("a TCP connection of the test broke: after 15 retransmissions")
    assert said.endswith(f"iperf3: {error}")
    assert iperf3_test.failure("the server is busy") == "iperf3: the server is busy"
