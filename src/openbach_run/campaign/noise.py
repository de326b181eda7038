# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise of hosts, `noise=host|off|FILE` of every scenario (docs/method/noise.md).

A file has two distributions as quantiles, [probability, us] with both rising: receive_us, how late
a host takes what has reached its network card, and timer_us, how late its timers fire.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from openbach_run.campaign.options import Options
from openbach_run.errors import InputError
from openbach_run.json_files import read_json
from openbach_run.openbach.shapes import check

NOISE, HOST, OFF = "noise", "host", "off"
DEFAULT = HOST
DESCRIPTION = "Noise of the hosts' times: host (that of a real one), off (none), or a JSON file"
FILE = Path(__file__).with_name("host_noise.json")
NAMES = ("receive_us", "timer_us")
"""Names of the two distributions in a file."""


def read_noise(values: Iterable[str]) -> dict[str, str]:
    """Return value → content of its file, for those that name one. Raises InputError."""
    return {value: json.dumps(_read(Path(value))) for value in values if value not in (HOST, OFF)}


def check_engine(values: Iterable[str], options: Options) -> None:
    """Raise InputError for a noise that only virtual time can have."""
    for value in values:
        if value != HOST and options.in_real_time:
            raise InputError(
                f"{NOISE}={value}: hosts in real time have their own noise; it can only be {HOST}"
            )


def distributions(value: str, content: str | None) -> dict[str, Any] | None:
    """Return the quantiles of a cell's noise by their names, None where it has none.

    Raises InputError for a file whose content nobody has read: the page reads none of this machine.
    """
    if value == OFF:
        return None
    if content is None and value != HOST:
        raise InputError(f"{NOISE}={value}: {HOST} or {OFF}; a file of yours by the command line")
    return _of_host() if content is None else json.loads(content)


@cache
def _of_host() -> dict[str, Any]:
    return _read(FILE)


def _read(file: Path) -> dict[str, Any]:
    """Return the two distributions of a file. Raises InputError for another file."""
    if not file.is_file():
        raise InputError(f"{NOISE}={file}: {HOST}, {OFF}, or a JSON file; there is no such file")
    noise = read_json(file)
    check(f"{file}", noise, "noise")
    read = {name: noise[name] for name in NAMES}
    for name, points in read.items():
        for low, high in pairwise(points):
            if low[0] >= high[0] or low[1] > high[1]:
                raise InputError(f"{file}: {name}: {high} after {low}; both should rise")
    return read
