# SPDX-License-Identifier: GPL-3.0-or-later
"""outage: what it takes and refuses. What it does is tested in the guest."""

from __future__ import annotations

import pytest
from helpers.job_code import load

outage = load("outage")


def test_an_outage_of_20_seconds_at_once_is_the_default() -> None:
    arguments = outage.parse(["eth0"])
    assert (arguments.kind, arguments.after_s, arguments.duration_s) == ("drop", 0, 20)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["eth0", "--after-s", "-1"],
        ["eth0", "--duration-s", "nan"],
        ["eth0", "--kind", "address", "--new-address", "here"],
    ],
)
def test_what_outage_refuses(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        outage.parse(words)
