# SPDX-License-Identifier: GPL-3.0-or-later
"""Every TCP connection of a run has the congestion control that the scenario asks for.

Seen in `ss -ti` while it runs.
"""

from __future__ import annotations

from pathlib import Path

from helpers.scenario_with import ran, with_snapshot

DOWNLOAD, TUNNEL = ":5201", ":1194"
PROFILES = {"cc=reno": "reno", "cc_pep=bbr2": "bbr2", "cc_tunnel=hybla": "hybla"}


def senders(printed: str, port: str) -> set[str]:
    """Congestion controls of the connections to or from a port in `ss -tinHO`."""
    lines = [line.split() for line in printed.splitlines() if line.startswith("ESTAB")]
    return {
        name
        for words in lines
        if any(address.endswith(port) for address in words[3:5])
        for name in PROFILES.values()
        if name in words
    }


def test_end_hosts_proxy_and_tunnel_have_each_their_own(tmp_path: Path) -> None:
    """The proxy on the POP splits the download; its tunnel is OpenVPN TCP."""
    scenario = with_snapshot(
        tmp_path, *((host, 10, "ss -tinHO") for host in ("pc", "box", "pop", "server"))
    )
    settings = ["vpn=openvpn_tcp", "pep=B", "loss=0", *PROFILES]
    run = ran(scenario, tmp_path / "r", *settings)
    seen = {
        line["_metadata"]["agent_name"].removeprefix("satvpn_"): line["printed"]
        for line in run.statistics("snapshot")
    }
    assert {host: senders(printed, DOWNLOAD) for host, printed in seen.items()} == {
        "pc": {"reno"},
        "box": set(),
        "pop": {"bbr2"},
        "server": {"reno"},
    }
    assert {host: senders(printed, TUNNEL) for host, printed in seen.items()} == {
        "pc": set(),
        "box": {"hybla"},
        "pop": {"hybla"},
        "server": set(),
    }
    assert {
        line["congestion_control"] for line in run.statistics("vpn") if "setup_time_s" in line
    } == {"hybla"}
    assert run.row["cc"] == next(
        line["congestion_control"] for line in run.statistics("file_transfer") if "bytes" in line
    )
