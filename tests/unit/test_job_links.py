# SPDX-License-Identifier: GPL-3.0-or-later
"""What satcom_link and transport_profile tell tc and ip."""

from __future__ import annotations

import importlib
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from openbach_run.guest import collect_agent

ROOT = Path(__file__).resolve().parents[2]


def load(job: str, module: str) -> ModuleType:
    sys.modules.setdefault("collect_agent", collect_agent)
    sys.path.insert(0, str(ROOT / f"jobs/{job}/files"))
    return importlib.import_module(module)


leo = load("satcom_link", "leo")
satcom_link = load("satcom_link", "satcom_link")
transport_profile = load("transport_profile", "transport_profile")


@pytest.fixture(autouse=True)
def no_run_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBACH_RUN_SEED", raising=False)


def netem(*options: str, delay_ms: float = 250, step: int = 0) -> list[str]:
    arguments = satcom_link.parse([*options])
    return [satcom_link.netem(one, arguments, delay_ms, step) for one in satcom_link.directions(arguments)]


def test_a_geo_link_without_loss_or_seed_is_a_delay() -> None:
    forward, back = netem("geo", "to_st", "to_gw")
    assert forward == "dev to_st root handle 1: netem limit 100000 delay 250000us"
    assert back == "dev to_gw root handle 1: netem limit 100000 delay 250000us"


def test_losses_are_seeded_by_the_run_and_the_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBACH_RUN_SEED", "7")
    forward, back = netem("geo", "to_st", "to_gw", "--loss", "0.1")
    mixed = satcom_link.mixed
    assert forward.endswith(f" loss random 0.1% seed {mixed(mixed(14))}")
    assert back.endswith(f" loss random 0.1% seed {mixed(mixed(15))}")


def test_the_option_seed_goes_before_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBACH_RUN_SEED", "7")
    given = netem("geo", "to_st", "to_gw", "--seed", "1")[0]
    monkeypatch.setenv("OPENBACH_RUN_SEED", "1")
    assert given == netem("geo", "to_st", "to_gw")[0]


def test_mixing_is_splitmix64() -> None:
    """First output of the reference implementation (Vigna, splitmix64.c) for the state 0."""
    assert satcom_link.mixed(0) == 0xE220A8397B1DCDAF


def test_a_leo_link_keeps_packets_in_order_and_never_repeats_a_seed() -> None:
    lines = [line for step in range(1000) for line in netem("leo", "to_st", "to_gw", "--seed", "1", step=step)]
    assert all(" rate 10gbit " in line for line in lines)
    seeds = {int(line.split()[-1]) for line in lines}
    assert len(seeds) == len(lines)
    assert max(seeds) < 2**64


@pytest.mark.parametrize(
    "options",
    [("meo", "a", "b"), ("geo", "a"), ("geo", "a", "b", "--loss", "101"), ("geo", "a", "b", "--rate", "0"),
     ("geo", "a", "b", "--rate", "10Q"), ("geo", "a", "b", "--buffer-bdp", "-1"), ("geo", "a", "b", "--seed", "x")],
)  # fmt: skip
def test_what_satcom_link_refuses(options: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as end:
        satcom_link.parse([*options])
    assert end.value.code == 2


def test_leo_satellites_stand_at_least_25_degrees_high() -> None:
    farthest_km = max(leo.slant_range_km(start_s + used_s) for start_s in leo.PASS_STARTS_S for used_s in (0, 15))
    assert farthest_km < 1123  # the slant range at 25 degrees and 550 km


def test_the_leo_delay_moves_slowly_but_for_handovers() -> None:
    delays = [leo.one_way_delay_ms(second) for second in range(106)]
    steps = [abs(after - before) for before, after in pairwise(delays)]
    handovers = [steps[second] for second in range(14, 105, 15)]
    assert max(step for second, step in enumerate(steps) if second % 15 != 14) < 0.05
    assert max(handovers) > 1
    assert 15 < min(delays) < leo.mean_delay_ms() < max(delays) < 30


ROUTES = """\
default via 192.168.10.1 dev to_box initcwnd 4 initrwnd 5 metric 10
192.168.10.0/24 dev to_box proto kernel scope link src 192.168.10.2 linkdown
"""


def test_routes_are_taken_as_ip_route_takes_them() -> None:
    default, lan = transport_profile.routes(ROUTES)
    assert " ".join(lan) == "192.168.10.0/24 dev to_box proto kernel scope link src 192.168.10.2"
    assert " ".join(default) == "default via 192.168.10.1 dev to_box initcwnd 4 initrwnd 5 metric 10"


def test_the_initial_window_takes_the_place_of_the_routes_own() -> None:
    default, lan = transport_profile.routes(ROUTES)
    assert " ".join(transport_profile.with_initial_window(default, 40)) == (
        "default via 192.168.10.1 dev to_box metric 10 initcwnd 40 initrwnd 40"
    )
    assert transport_profile.with_initial_window(lan, 40) == [*lan, "initcwnd", "40", "initrwnd", "40"]


HYSTART = Path("/sys/module/tcp_cubic/parameters/hystart")


@pytest.mark.parametrize(("cc", "available", "algorithm", "hystart"), [
    ("cubic", ["cubic"], "cubic", "1"),
    ("cubic_nohystart", ["cubic"], "cubic", "0"),
    ("cubic", ["cubic", "cubic_nohystart"], "cubic", "1"),
    ("cubic_nohystart", ["cubic", "cubic_nohystart"], "cubic_nohystart", None),
    ("bbr2", ["cubic"], "bbr2", None),
])  # fmt: skip
def test_a_profile_is_an_algorithm_and_its_parameters(
    cc: str, available: list[str], algorithm: str, hystart: str | None
) -> None:
    wanted = transport_profile.settings(cc, 16 << 20, available)
    assert wanted[transport_profile.IPV4 / "tcp_congestion_control"] == algorithm
    assert wanted.get(HYSTART) == hystart


def test_a_value_that_the_kernel_did_not_take_is_told(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="writing 'bbr'"):
        transport_profile.write(tmp_path / "absent/tcp_congestion_control", "bbr")
