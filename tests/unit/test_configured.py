# SPDX-License-Identifier: GPL-3.0-or-later
"""What Debian's scripts would have configured, in a tree of a test's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openbach_run.engine.virtual import configured
from openbach_run.engine.virtual.image import FILES

IPTABLES = """\
if [ "$1" = "configure" ]; then
 update-alternatives \\
   --install /usr/sbin/iptables iptables /usr/sbin/iptables-legacy 10 \\
   --slave /usr/sbin/iptables-save iptables-save /usr/sbin/iptables-legacy-save
        update-alternatives --install /usr/sbin/iptables iptables /usr/sbin/iptables-nft 20 \\
          --slave /usr/sbin/iptables-save iptables-save /usr/sbin/iptables-nft-save
fi
"""
TCPDUMP = """\
if ! getent group tcpdump >/dev/null 2>&1; then
    addgroup --system --quiet tcpdump
fi
    adduser --system --quiet --ingroup tcpdump  \\
     --no-create-home --home /nonexistent \\
     tcpdump
if ! addgroup --quiet --system $GROUP; then true; fi
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("usr/sbin", "etc", "usr/share/base-passwd", "var/log/nginx", "usr/lib/sysusers.d"):
        (tmp_path / name).mkdir(parents=True)
    for program in ("iptables-legacy", "iptables-nft", "iptables-nft-save"):
        (tmp_path / "usr/sbin" / program).touch()
    (tmp_path / "usr/share/base-passwd/passwd.master").write_text(
        "proxy:*:13:13:proxy:/bin:/usr/sbin/nologin\n"
    )
    (tmp_path / "usr/share/base-passwd/group.master").write_text("proxy:*:13:\n")
    (tmp_path / "usr/lib/sysusers.d/x.conf").write_text(
        'u mail-user - "of x" /var/x\ng readers -\n'
    )
    return tmp_path


def test_of_two_alternatives_the_one_with_the_higher_priority_is_linked(root: Path) -> None:
    configured.configure(root, {"iptables": IPTABLES}, FILES)
    assert os.readlink(root / "usr/sbin/iptables") == "/etc/alternatives/iptables"
    assert os.readlink(root / "etc/alternatives/iptables") == "/usr/sbin/iptables-nft"
    assert os.readlink(root / "etc/alternatives/iptables-save") == "/usr/sbin/iptables-nft-save"


def test_a_file_of_a_package_stays(root: Path) -> None:
    (root / "usr/sbin/iptables").write_text("mine")
    configured.configure(root, {"iptables": IPTABLES}, FILES)
    assert (root / "usr/sbin/iptables").read_text() == "mine"


def test_packages_have_their_users(root: Path) -> None:
    configured.configure(root, {"tcpdump": TCPDUMP}, FILES)
    users = {
        line.split(":")[0]: line.split(":")
        for line in (root / "etc/passwd").read_text().splitlines()
    }
    groups = {
        line.split(":")[0]: line.split(":")
        for line in (root / "etc/group").read_text().splitlines()
    }
    assert {"root", "satpep", "proxy", "tcpdump", "mail-user"} <= users.keys()
    assert users["tcpdump"][2] == users["tcpdump"][3] == groups["tcpdump"][2]
    assert "readers" in groups
    assert "readers" not in users


def test_the_id_of_a_user_is_the_same_whatever_else_is_installed(root: Path) -> None:
    def number(*scripts: str) -> str:
        found = configured.accounts(root, scripts, FILES)
        return found.users["tcpdump"].split(":")[2]

    assert number(TCPDUMP) == number("adduser --system other\n", TCPDUMP)


def test_a_host_gets_the_directories_of_packages(root: Path) -> None:
    assert "mkdir -p /var/log/nginx" in configured.state(root)
