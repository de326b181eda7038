# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job silence: says nothing for a while, then asks, and measures when the answer comes.

Meanwhile a NAT forgets flows, keys get old, and peers are taken for dead. It asks by ping, once a
second, as long as its patience. With `data` and `call` the server's end asks by a TCP connection,
or by packets of voice, and the client's end answers. One scenario has both ends: else the one that
is not to speak first does nothing.
"""

from __future__ import annotations

import argparse
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress

import collect_agent

from openbach_jobs import limits
from openbach_jobs.ports import any_address

CONFIGURATION = "/opt/openbach/agent/jobs/silence/silence_rstats_filter.conf"
ENDS = ("server", "client")
DATA, CALL = "data", "call"
"""What the server's end asks by in place of pings."""
PORT = 5204
VOICE, VOICE_S = bytes(12 + 160), 0.02
"""A packet of a call and the time between two, as in the job voip: RTP with 20 ms of G.711."""
HUNG_UP_S = 5.0
"""Without a packet, after which a call that was answered is over."""
LIMITS = {"silence_s": (0, 13_000), "patience_s": (1, 3600)}
SIGNALS = {signal.SIGTERM, signal.SIGINT}
ANSWERED, UNANSWERED = 0, 1
"""Exit codes of ping."""


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Return the arguments of a command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination_ip")
    parser.add_argument("first", choices=[*ENDS, DATA, CALL], help="what speaks first")
    parser.add_argument("at", choices=ENDS, help="the end that this is")
    parser.add_argument("--silence-s", type=int, default=60)
    parser.add_argument("--patience-s", type=int, default=120, help="without an answer")
    arguments = parser.parse_args(argv)
    limits.check(parser, arguments, LIMITS)
    return arguments


def answer_after_s(destination_ip: str, patience_s: int, first: str = "server") -> float | None:
    """Return the seconds from the first request to the first answer; None if there is none."""
    is_answered = {DATA: is_data_answered, CALL: is_call_answered}.get(first, is_ping_answered)
    begin_s = time.monotonic()
    return time.monotonic() - begin_s if is_answered(destination_ip, patience_s) else None


def is_ping_answered(destination_ip: str, patience_s: int) -> bool:
    """Ping until there is an answer, and return whether one came in time."""
    # With -w it goes on until there is one answer.
    command = ["ping", "-nq", "-c", "1", "-w", str(patience_s), destination_ip]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode not in (ANSWERED, UNANSWERED):
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == ANSWERED


def is_data_answered(destination_ip: str, patience_s: int) -> bool:
    """Connect, send a byte, and return whether one came back in time."""
    try:
        with socket.create_connection((destination_ip, PORT), timeout=patience_s) as connection:
            connection.sendall(b"?")
            return bool(connection.recv(1))
    except TimeoutError:
        return False
    except OSError as error:
        sys.exit(f"{destination_ip}, port {PORT}: {error}")


def is_call_answered(destination_ip: str, patience_s: int) -> bool:
    """Send voice until a packet of voice comes back, and return whether one came in time."""
    family = socket.AF_INET6 if ":" in destination_ip else socket.AF_INET
    end_s = time.monotonic() + patience_s
    with socket.socket(family, socket.SOCK_DGRAM) as call:
        call.settimeout(VOICE_S)
        while time.monotonic() < end_s:
            with suppress(OSError):  # there is no way yet
                call.sendto(VOICE, (destination_ip, PORT))
            with suppress(TimeoutError):
                return bool(call.recv(len(VOICE)))
    return False


def answer(first: str, limit_s: float) -> None:
    """Answer a connection's byte, or all packets of a call, if the first comes within the limit."""
    with suppress(TimeoutError):
        if first == DATA:
            with socket.create_server(("", PORT), **any_address()) as listener:
                listener.settimeout(limit_s)
                connection, _ = listener.accept()
            with connection:
                connection.settimeout(limit_s)
                connection.sendall(connection.recv(1))
            return
        family = any_address().get("family", socket.AF_INET)
        with socket.socket(family, socket.SOCK_DGRAM) as call:
            call.bind(("", PORT))
            call.settimeout(limit_s)
            while True:
                voice, caller = call.recvfrom(len(VOICE))
                call.sendto(voice, caller)
                call.settimeout(HUNG_UP_S)


def main() -> None:
    """Run the job."""
    arguments = parse()
    speaker = "client" if arguments.first == "client" else "server"
    if arguments.at != speaker:
        if arguments.first in (DATA, CALL):
            answer(arguments.first, arguments.silence_s + 2 * arguments.patience_s)
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if signal.sigtimedwait(SIGNALS, arguments.silence_s):
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    after_s = answer_after_s(arguments.destination_ip, arguments.patience_s, arguments.first)
    answered = 0 if after_s is None else 1
    collect_agent.send_stat(collect_agent.now(), answered=answered, answer_after_s=after_s)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
