# SPDX-License-Identifier: GPL-3.0-or-later
"""nat: what it takes and refuses, and its rules. What it does is tested in the guest."""

from __future__ import annotations

import pytest
from helpers.job_code import load

nat = load("nat")


def test_nothing_comes_in_by_the_outer_interface() -> None:
    arguments = nat.parse(["terminal", "to_sat"])
    assert arguments.udp_timeout_s == 0
    rules = nat.RULES.format(outside=arguments.outside)
    assert 'oifname "to_sat" masquerade' in rules
    assert 'iifname "to_sat" ct state new counter name refused drop' in rules


@pytest.mark.parametrize(
    "words", [["box", "to_sat"], ["terminal"], ["none", "a", "--udp-timeout-s", "-1"]]
)
def test_what_nat_refuses(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        nat.parse(words)
