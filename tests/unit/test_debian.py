# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian mirror that this machine's apt uses.

It is read from sources of every form, without package lists.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from openbach_run.engine.virtual import debian
from openbach_run.errors import SetupError

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
