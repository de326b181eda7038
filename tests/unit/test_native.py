# SPDX-License-Identifier: GPL-3.0-or-later
"""What the native engine decides before a run and makes of what it saw.

Tests/guest/test_native_runs.py has the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.waiting import wait_for

from openbach_run.campaign.execute import PlannedRun, interleaved
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.needs import check_host
from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import CellSpec, Origin, RunSpec
from openbach_run.catalog import Catalog
from openbach_run.commands.main import parser
from openbach_run.commands.run import options_of
from openbach_run.engine.native import cpu
from openbach_run.engine.native.boundary import Boundary, Host
from openbach_run.engine.native.features import FEATURES
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.openbach.limits import check_declaration
from openbach_run.paths import REPOSITORY

PACKAGES = load_packages([REPOSITORY / "jobs"])
ALL = Host(frozenset(FEATURES), frozenset({"reno", "cubic"}))


def campaign(scenario: str, *settings: str) -> Campaign:
    return plan(REPOSITORY / f"scenarios/{scenario}.yml", settings, (1,), PACKAGES)


def refused(host: Host, scenario: str, *settings: str) -> str:
    with pytest.raises(InputError) as error:
        check_host(campaign(scenario, *settings), Catalog(), host)
    return str(error.value)


def without(*features: str) -> Host:
    return replace(ALL, features=ALL.features - {*features})


def test_a_host_with_everything_rules_nothing_out() -> None:
    cells = ("vpn=none,wireguard,openvpn_udp,strongswan", "cc=reno", "impairment=none,low")
    check_host(campaign("lan_tcp", *cells), Catalog(), ALL)


def test_the_values_that_need_what_is_lacking_are_named() -> None:
    cells = (
        "vpn=none,wireguard,openvpn_udp",
        "cc=reno,bbr2",
        "rate=100M,unlimited",
        "delay_ms=0,5",
        "impairment=none,low",
    )
    said = refused(without("netem", "wireguard"), "lan_tcp", *cells)
    for line in (
        "rate=100M: needs netem",
        "delay_ms=5: needs netem",
        "impairment=low: needs netem",
        "vpn=wireguard: needs wireguard",
        "cc=bbr2: no congestion control of this host's",
    ):
        assert line in said
    for value in (
        "openvpn_udp",
        "unlimited:",
        "delay_ms=0",
        "impairment=none",
        "cc=reno",
        "vpn=none",
    ):
        assert value not in said.partition("rules out")[2]


def test_what_is_the_same_as_something_else_needs_nothing_of_its_own() -> None:
    check_host(campaign("geo", "vpn=none", "cc=cubic", "loss=0"), Catalog(), without("cpu_model"))


def test_places_named_from_here_are_found_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/usr")
    command = Boundary("user").command(
        "", Path("/guest"), Path("/code"), Path("results/lan/runs/1"), "true"
    )
    assert command[-4:] == ["/guest", "/code", "/usr/results/lan/runs/1", "true"]


def test_a_lan_without_a_rate_needs_no_netem() -> None:
    cells = ("vpn=none,openvpn_udp", "cc=reno", "rate=unlimited", "delay_ms=0")
    check_host(campaign("lan_tcp", *cells), Catalog(), without("netem", "tbf", "matchall"))


@pytest.mark.parametrize(
    ("lacking", "vpn", "words"),
    [
        ("tun", "nebula_chacha", "vpn=nebula_chacha: needs TUN interfaces"),
        ("nft", "wireguard", "vpn=wireguard: needs nft"),
        ("esp", "strongswan_udp", "vpn=strongswan_udp: needs esp"),
        ("ip6tnl", "yggdrasil", "vpn=yggdrasil: needs ip6tnl"),
        ("ipip", "easytier", "vpn=easytier: needs ipip"),
    ],
)
def test_what_a_vpn_needs(lacking: str, vpn: str, words: str) -> None:
    assert words in refused(
        without(lacking), "lan_tcp", f"vpn={vpn}", "cc=reno", "rate=unlimited", "delay_ms=0"
    )


def test_vpns_with_a_tunnel_of_the_kernel_in_theirs_say_so() -> None:
    """EasyTier's runs failed natively, one by one: "Unknown device type"."""
    for up in (REPOSITORY / "vpn-configs").glob("*/up"):
        if "tunnel_in_overlay" in up.read_text():
            needs = json.loads((up.parent / "vpn.json").read_text()).get("needs", [])
            assert "tun" in needs and {"ipip", "ip6tnl"} & {*needs}, up.parent.name


def test_a_satellite_link_and_a_proxy() -> None:
    cells = ("vpn=none", "cc=reno", "queue=codel", "pep=B")
    said = refused(without("matchall", "codel", "users"), "geo", *cells)
    for line in (
        "orbit=geo: needs the traffic classifier matchall (module cls_matchall)",
        "queue=codel: needs codel (module sch_codel)",
        "natively give other values, or install it: on Debian linux-image-amd64 has it",
        "pep=B: needs other users",
    ):
        assert line in said


def test_a_parameter_of_the_whole_kernel_is_not_changed() -> None:
    said = refused(ALL, "lan_tcp", "vpn=none", "cc=cubic_nohystart", "rate=unlimited", "delay_ms=0")
    assert (
        "cc=cubic_nohystart: sets tcp_cubic/hystart to 0 for the whole kernel, which would change"
        " this host" in said
    )


def test_needs_are_conditions() -> None:
    check_declaration("here", {"needs": {"netem": "rate != 'unlimited'"}})
    for wrong in ({"needs": ["netem"]}, {"needs": {"netem": "rate !="}}):
        with pytest.raises(InputError, match="here"):
            check_declaration("here", wrong)


WRONG_CLOCKS = ("vritual", "real/", "real/0", "real/1", "real/1001", "real/10x", "virtual/2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--engine", "native", "--pcap"], "--pcap"),
        (["--engine", "native", "--workers", "2"], "one at a time"),
        (["--engine", "native", "--scheduler", "tcp://a:1"], "--scheduler"),
        (["--clock", "real", "--scheduler", "tcp://a:1"], "--scheduler"),
        (["--engine", "native", "--clock", "real"], "--clock real is of the virtual engine"),
        (["--engine", "controller", "--clock", "real"], "--clock real is of the virtual engine"),
        (["--engine", "native", "--clock", "real/10"], "--clock real/10 is of the virtual engine"),
        (["--clock", "real/10", "--scheduler", "tcp://a:1"], "--scheduler"),
        *(
            (["--clock", wrong], f"--clock {wrong}: one of virtual, real, or real/N")
            for wrong in WRONG_CLOCKS
        ),
    ],
)
def test_options_that_do_not_go_together(words: list[str], said: str) -> None:
    arguments: argparse.Namespace = parser().parse_intermixed_args(["lan_tcp", *words])
    with pytest.raises(InputError, match=said):
        options_of(arguments)


def test_repetitions_are_interleaved() -> None:
    scenario = campaign("lan_ping", "vpn=none", "cc=reno").scenario
    cells = [CellSpec(Origin(scenario), {"vpn": str(number)}) for number in range(20)]
    engine: Any = None
    runs = [
        PlannedRun(RunSpec(cell, seed), engine, "lan_ping") for cell in cells for seed in (1, 2)
    ]
    order = interleaved(runs)
    assert [one.spec.seed for one in order] == [1] * 20 + [2] * 20
    names = [one.spec.values["vpn"] for one in order]
    assert sorted(names[:20]) == sorted(names[20:])
    assert names[:20] != [str(number) for number in range(20)]  # 1 in 20! that they are


def test_ticks_of_a_process_whose_name_is_awkward() -> None:
    fields = "S 1 1 1 0 -1 4194304 0 0 0 0 7 5 11 2 20 0 1 0 100"
    assert cpu.cpu_ticks(f"42 (a (b) c) {fields}") == ("a (b) c", 12, 13)


def test_cpu_time_is_counted_once_and_kept_when_a_process_ends() -> None:
    """A process below a process 1 of its own burns 1.5 s, then ends."""
    # The kernel rounds user and system time down to a tick each: 0.1 s are left for that. Counted
    # twice it would be 2.8 s at least; the other processes take less than 1.1 s to start.
    least_s, most_s = 1.4, 2.6
    burn = "import time\nwhile time.process_time() < 1.5: pass\n"
    script = (
        f"import subprocess, sys, time; subprocess.run([sys.executable, '-c', {burn!r}]);"
        " time.sleep(600)"
    )
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
    keeper = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import subprocess, sys; subprocess.run([sys.executable, '-c', {outer!r}])",
        ]
    )
    watch = cpu.Watch(keeper.pid, "")
    try:
        before = watch._last
        wait_for(
            lambda: (
                watch._looked().run_s - before.run_s >= least_s
                and all(depth != 2 for depth, _, _ in cpu.descendants(keeper.pid))
            ),
            "the end of what burns",
        )
        assert least_s <= watch._looked().run_s - before.run_s < most_s
    finally:
        watch.stop()
        for _, pid, _ in reversed(list(cpu.descendants(keeper.pid))):
            with suppress(ProcessLookupError):  # it ends when what it waits for was killed
                os.kill(pid, 9)
        keeper.kill()
        keeper.wait()


def sample(time_s: float, programs_s: dict[tuple[str, str], float]) -> cpu.Sample:
    return cpu.Sample(time_s, programs_s, sum(programs_s.values()), 2 * time_s, 0.0)


def jobs_started(run_dir: Path, *names: str) -> None:
    """With 1, 2, … as their instances."""
    started = {
        "t_s": 1.0,
        "event": "job_started",
        "function": 1,
        "scenario_instance_id": 1,
        "entity": "satvpn_pc_1",
    }
    events = [{**started, "job": job, "instance_id": number} for number, job in enumerate(names, 1)]
    (run_dir / "events.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))


def test_cpu_time_is_not_that_of_a_wait_for_the_path(tmp_path: Path) -> None:
    """It was, of a UDP test of 18 s behind a Tailscale that took as long to log in."""
    jobs_started(tmp_path, "path_ready", "udp_stress")
    (tmp_path / "statistics.jsonl").write_text("")
    looks = (
        sample(0, {}),
        sample(20, {("box_1", "tailscaled"): 0.1}),
        sample(38, {("box_1", "tailscaled"): 2.1}),
    )
    cpu.send(tmp_path, {1: cpu.Window(looks[0], looks[1]), 2: cpu.Window(looks[1], looks[2])})
    sent = [json.loads(line) for line in (tmp_path / "statistics.jsonl").read_text().splitlines()]
    assert sent[0]["cpu_window_s"] == 18 and sent[0]["cpu_s"] == 2.0


def test_cpu_time_is_that_of_the_job_that_ran_longest(tmp_path: Path) -> None:
    jobs_started(tmp_path, "a", "b")
    metadata = {
        "time": 1,
        "job_name": "b",
        "agent_name": "x",
        "job_instance_id": 2,
        "scenario_instance_id": 1,
    }
    (tmp_path / "statistics.jsonl").write_text(
        json.dumps({"received_bytes": 2 * 10**9, "_metadata": metadata}) + "\n"
    )
    zero, one, two = (
        sample(0, {}),
        sample(1, {("box_1", "openvpn"): 0.5}),
        sample(10, {("box_1", "openvpn"): 4.5}),
    )
    cpu.send(tmp_path, {1: cpu.Window(zero, one), 2: cpu.Window(one, two)})
    sent = [json.loads(line) for line in (tmp_path / "statistics.jsonl").read_text().splitlines()][
        1:
    ]
    by_suffix = {
        (line["_metadata"]["job_name"], line["_metadata"].get("suffix")): line for line in sent
    }
    whole = by_suffix["cpu", None]
    assert (
        whole["cpu_s"],
        whole["cpu_s_per_gb"],
        whole["cpu_window_s"],
        whole["cpu_others_s"],
    ) == (4.0, 2.0, 9.0, 14.0)
    assert by_suffix["cpu_by_program", "box_1_openvpn"]["cpu_s_per_gb"] == 2.0
    assert by_suffix["cpu_by_program", "box_1"]["cpu_s"] == 4.0


def test_every_piece_of_a_link_that_is_lacking_is_named_with_its_module() -> None:
    """Of several the last was named; of lan_link's only netem was looked for."""
    said = refused(without("netem", "mirred"), "geo", "vpn=none", "cc=reno")
    assert "orbit=geo: needs netem (module sch_netem), mirred (module act_mirred)" in said
    said = refused(without("ifb", "clsact"), "lan_tcp", "vpn=none", "cc=reno")
    assert "needs ifb (module ifb), clsact (module sch_ingress)" in said
