# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts share no directory that they can write.

As machines of their own, none sees a file of another.
"""

from __future__ import annotations

import pytest
from helpers.guest_runs import Run
from helpers.scenario_with import Job, ran, scenario_of

PLACES = (
    *(
        "/tmp",
        "/root",
        "/dev/shm",
        "/run",
        "/etc",
        "/etc/sysctl.d",
        "/var",
        "/var/cache",
        "/var/lib",
        "/var/log",
    ),
    *("/var/run", "/var/tmp", "/opt/openbach/agent", "/opt/openbach/agent/jobs"),
)
WRITE = "for place in {places}; do mkdir -p $place/.; echo {host} > $place/mine; done"
READ = "for place in {places}; do cat $place/mine; done"
EDIT = "echo {host} >> /etc/hosts"
ANEW = "rm -rf /etc/ssl && mkdir /etc/ssl && mv /etc/apt /etc/moved && rm /etc/hostname"
DELETED = "ls -A /etc/ssl /etc/apt /etc/hostname 2> /dev/null | grep -v : | wc -w"


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each host reads, after both have written."""
    place = tmp_path_factory.mktemp("own")

    def shell(host: str, words: str) -> Job:
        return Job(
            host,
            "snapshot",
            {"command": words.format(places=" ".join(PLACES), host=host).replace("$", "$$")},
        )

    hosts = ("pc", "server")
    writes = [shell(host, f"{WRITE}; {EDIT}; {ANEW}") for host in hosts]
    reads = [
        shell(host, f"{READ}; tail -n 1 /etc/hosts; wc -l < /etc/passwd; {DELETED}")._replace(
            finished=[0, 1]
        )
        for host in hosts
    ]
    reads[-1] = reads[-1]._replace(finished=[0, 1, 2])
    run = ran(scenario_of(place, *writes, *reads), place / "r")
    return {host: read_by(run, host) for host in hosts}


def read_by(run: Run, host: str) -> list[str]:
    lines = [
        line
        for line in run.statistics("snapshot")
        if line["_metadata"]["agent_name"] == f"satvpn_{host}"
    ]
    return str(lines[-1]["printed"]).split()


@pytest.mark.parametrize("host", ["pc", "server"])
def test_a_host_reads_what_it_has_written(printed: dict[str, list[str]], host: str) -> None:
    *written, edited, users, left = printed[host]
    assert dict(zip(PLACES, written, strict=True)) == dict.fromkeys(PLACES, host)
    assert edited == host
    assert int(users) > 3, "what all hosts begin with is there"
    assert left == "0", "a directory that was deleted and made anew is empty"
