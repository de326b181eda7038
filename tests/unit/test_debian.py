# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian mirror that this machine's apt uses.

It is read from sources of every form, without package lists.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from openbach_run.engine.virtual import debian
from openbach_run.errors import SetupError
from openbach_run.paths import REPOSITORY

DEB822 = """\
Types: deb deb-src
URIs: http://security.example/debian-security
Suites: trixie-security
Components: main

Types: deb
URIs: http://mirror.example/debian/
Suites: trixie trixie-updates
Components: contrib main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
ONE_LINE = """\
# deb http://commented.example/debian trixie main
deb cdrom:[Debian GNU/Linux 12]/ bookworm main
deb http://extra.example/debian bookworm contrib
deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://mirror.example/debian bookworm main
"""
UBUNTU = "deb http://archive.ubuntu.com/ubuntu noble main universe\n"


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources' directory of an apt that has fetched no lists."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "apt.conf").write_text(
        'Dir::Etc::sourcelist "/dev/null";\nDir::Etc::sourceparts'
        f' "{tmp_path}/parts";\nDir::State::lists "{tmp_path}/lists";\n'
    )
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.delenv(debian.MIRROR_VARIABLE, raising=False)
    return tmp_path / "parts"


@pytest.mark.parametrize(("name", "text"), [("debian.sources", DEB822), ("debian.list", ONE_LINE)])
def test_a_fresh_container_has_a_mirror(apt: Path, name: str, text: str) -> None:
    (apt / "other.list").write_text(UBUNTU)
    (apt / name).write_text(text)
    assert debian.mirror() == "http://mirror.example/debian"


@pytest.mark.parametrize(
    "text", ["", UBUNTU, "deb http://security.example/debian-security trixie-security main\n"]
)
def test_sources_without_a_mirror_are_told_how_to_give_one(apt: Path, text: str) -> None:
    (apt / "some.list").write_text(text)
    with pytest.raises(
        SetupError, match=r"name no Debian mirror; give one, e\.g\. OPENBACH_RUN_DEBIAN_MIRROR=http"
    ):
        debian.mirror()


SHOWN = f"""\
Package: tinc
Format: 3.0 (quilt)
Version: 1.0.36-2.1
Checksums-Sha1:
 {"0" * 40} 1832 tinc_1.0.36-2.1.dsc
Checksums-Sha256:
 {"a" * 64} 1832 tinc_1.0.36-2.1.dsc
 {"b" * 64} 505340 tinc_1.0.36.orig.tar.gz
Directory: pool/main/t/tinc

Package: acl
Checksums-Sha256:{" "}
 {"c" * 64} 2514 acl_2.3.2-2.dsc
Version: 2.3.2-2
Directory: pool/main/a/acl
"""


def test_the_files_of_source_packages_have_their_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debian, "run", lambda *_, **__: SHOWN)
    apt = debian.Apt(tmp_path, ("trixie",), {}, debian.SOURCE)
    assert apt.source_files(["tinc", "acl"]) == {
        "tinc 1.0.36-2.1": {
            "pool/main/t/tinc/tinc_1.0.36-2.1.dsc": "a" * 64,
            "pool/main/t/tinc/tinc_1.0.36.orig.tar.gz": "b" * 64,
        },
        "acl 2.3.2-2": {"pool/main/a/acl/acl_2.3.2-2.dsc": "c" * 64},
    }


def test_broken_sources_are_shown(apt: Path) -> None:
    (apt / "broken.list").write_text("deb http://mirror.example/debian\n")
    with pytest.raises(SetupError, match=r"(?s)reading apt's sources failed .*broken.list"):
        debian.mirror()


def test_a_mirror_that_is_given_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(debian.MIRROR_VARIABLE, "http://given.example/debian")
    assert debian.mirror() == "http://given.example/debian"


def test_a_system_without_apt_is_told_of_bundles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(SetupError, match=r"no apt-get.*docs/bundle\.md"):
        debian.ensure_tools({"no-such-command": "no-such-package"})


@pytest.mark.parametrize(
    ("manager", "words"),
    [
        ("dnf", "sudo dnf install apt glibc-devel xz debian-keyring,"),
        ("pacman", "sudo pacman -S --needed apt glibc xz debian-archive-keyring,"),
        ("zypper", "sudo zypper install apt glibc-devel xz debian-archive-keyring,"),
    ],
)
def test_another_system_is_told_in_its_own_words(
    manager: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "shutil.which", lambda name: f"/usr/bin/{name}" if name == manager else None
    )
    with pytest.raises(SetupError) as refused:
        debian.ensure_tools(
            {"apt-get": "apt", "no-such-compressor": "xz-utils", "/no/such/header.h": "libc6-dev"}
        )
    assert words in str(refused.value) and "docs/bundle.md" in str(refused.value)


FAKE_APT = """#!/bin/sh
case "$*" in "-o DPkg::Lock::Timeout="*) ;; *) echo "does not wait: $*"; exit 9 ;; esac
mkdir {place}/busy || exit 8
mkfifo {place}/pipe.$$ && timeout 0.2 cat {place}/pipe.$$
case "$*" in *install*) touch {place}/the-tool; echo "$*" >> {place}/installed ;; esac
rmdir {place}/busy
"""
"""An apt-get that takes a while, fails where another one is at work, and installs one file."""
INSTALLS = """
import os, sys
os.geteuid = lambda: 0
from openbach_run.engine.virtual import debian
debian.ensure_tools({sys.argv[1]: "some-package"})
"""


def test_two_commands_do_not_install_at_once(tmp_path: Path) -> None:
    """Both find it missing; the second waits, and then it is there."""
    fake = tmp_path / "bin/apt-get"
    fake.parent.mkdir()
    fake.write_text(FAKE_APT.replace("{place}", str(tmp_path)))
    fake.chmod(0o755)
    path = f"{fake.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", INSTALLS, str(tmp_path / "the-tool")]
    both = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert len((tmp_path / "installed").read_text().splitlines()) == 1


def test_every_apt_get_waits_for_another_one() -> None:
    """Wherever this repository installs something, by its own text; not where it only reads."""
    listed = [
        "git",
        "grep",
        "-nE",
        r"apt-get.* (install -y|update -qq)|\"apt-get\", .*(update|install)",
    ]
    lines = subprocess.run(
        listed, cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    calls = [line for line in lines.splitlines() if not line.startswith(("docs/", "tests/unit/"))]
    assert len(calls) >= 4
    reads = "--print-uris"
    waits = ("DPkg::Lock::Timeout=", "*DPKG_WAITS", "${waits[@]}")
    assert not [
        call for call in calls if reads not in call and not any(one in call for one in waits)
    ]
