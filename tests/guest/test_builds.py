# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds of programs that somebody else's jobs and VPNs bring as source get nowhere.

They leave what they should, or nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY, Host

from openbach_run.engine.virtual.debian import ensure_tools
from openbach_run.engine.virtual.jail import MODES, Jail, ensure_jail
from openbach_run.engine.virtual.programs import ensure_programs, host_programs
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import cache_directory

LIMIT_S = 60
EVIL = REPOSITORY / "tests/guest/jail/build"


@pytest.mark.parametrize("mode", MODES)
def test_nothing_gets_out_of_a_build(launcher: Path, listener: str, host: Host, mode: str) -> None:
    folder = Path(shutil.copytree(EVIL, host.place / "evil"))
    (out := host.place / "out").mkdir()
    (secret := host.place / "secret").write_text("secret\n")
    host.own(folder, out, secret, *folder.iterdir())
    before = secret.stat()
    jail = Jail(Path(shutil.copy(launcher, host.place)), mode)
    variables = {"OUT": out, "SECRET": secret, "PID": os.getpid(), "ABSTRACT": listener}
    make = [
        "make",
        "-s",
        "-C",
        str(folder),
        *(f"{name}={value}" for name, value in variables.items()),
        "evil",
    ]
    done = subprocess.run(
        [*host.user, *jail.build(out, [folder], make, network=False)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "TMPDIR": str(out)},
    )
    assert (done.stdout, done.returncode) == ("0 got through\n", 0)
    now = secret.stat()
    assert secret.read_text() == "secret\n"
    assert (now.st_mode, now.st_uid, now.st_mtime_ns) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime_ns,
    )
    assert {one.name for one in host.place.iterdir()} == {"evil", "jail", "out", "secret"}
    assert {one.name for one in folder.iterdir()} == {"Makefile", "attempts.c", "tries.h"}


@pytest.mark.parametrize("mode", MODES)
def test_a_build_from_a_registry_reaches_the_internet_only(
    launcher: Path, host: Host, mode: str
) -> None:
    (out := host.place / "out").mkdir()
    host.own(out)
    jail = Jail(Path(shutil.copy(launcher, host.place)), mode)
    kinds = (
        "import socket\nfor kind in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX,"
        " socket.AF_PACKET, socket.AF_VSOCK):\n"
    )
    attempt = (
        "    try:\n        socket.socket(kind)\n        print(kind.name)\n    except OSError:\n    "
        "    pass\n"
    )
    python = ["/usr/bin/python3", "-Sc", kinds + attempt]
    command = [*host.user, *jail.build(out, [], python, network=True)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("AF_INET\nAF_INET6\n", "")


def jail(mode: str = MODES[0]) -> Callable[[], Jail]:
    found = ensure_jail(cache_directory(), REPOSITORY / "kernel", lambda text, part: None)
    return lambda: Jail(found.launcher, mode)


def program(place: Path, recipe: str) -> dict[str, Path]:
    """A job of a directory that a user has added, with a program `evil`."""
    files = place / "added/jobs/evil/files"
    (files / "evil").mkdir(parents=True)
    (files / "evil/Makefile").write_text(f"evil:\n\t{recipe}\n")
    return {"jobs/evil": files}


def build(place: Path, code: dict[str, Path]) -> dict[str, Path]:
    return ensure_programs(place / "cache", code, jail(), lambda text, part: None)


def test_satpep_is_the_same_of_both_modes(tmp_path: Path) -> None:
    """With Landlock alone make may not list the folder, and saw no Makefile."""
    code = {f"satpep/{part}": REPOSITORY / "pep" / part for part in ("Makefile", "src")}
    made = [ensure_programs(tmp_path / mode, code, jail(mode), print) for mode in MODES]
    (one,), (other,) = (programs.values() for programs in made)
    assert one.read_bytes() == other.read_bytes()


def test_a_makefile_of_a_job_writes_nothing_but_its_program(tmp_path: Path) -> None:
    """It ran on this machine, as the user: this wrote the file."""
    stolen = tmp_path / "stolen"
    code = program(
        tmp_path, f"id > {stolen} || true; echo '#!/bin/sh' > $(OUT)/evil; echo x > $(OUT)/more"
    )
    (made,) = build(tmp_path, code).values()
    assert not stolen.exists()
    assert made.read_text() == "#!/bin/sh\n"
    assert [one.name for one in made.parent.iterdir()] == ["evil"]
    assert made.stat().st_mode & 0o7777 == 0o755


def test_a_makefile_gets_no_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    (made,) = build(tmp_path, program(tmp_path, "env > $(OUT)/evil")).values()
    assert "hunter2" not in made.read_text()


@pytest.mark.parametrize(
    "recipe", ["ln -s /etc/hostname $(OUT)/evil", "mkfifo $(OUT)/evil", "mkdir $(OUT)/evil", "true"]
)
def test_what_is_no_file_is_no_program(tmp_path: Path, recipe: str) -> None:
    with pytest.raises(SetupError, match="it should make evil"):
        build(tmp_path, program(tmp_path, recipe))
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix == ""]


def test_a_link_out_of_what_was_added_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    code = program(tmp_path, "cp secret $(OUT)/evil")
    (code["jobs/evil"] / "evil/secret").symlink_to(tmp_path / "secret")
    with pytest.raises(
        InputError, match=r"files/evil/secret: a link to .*/secret, which is not of the directory"
    ):
        build(tmp_path, code)


@pytest.mark.parametrize("name", ["../../evil", "/tmp/evil", "-evil", ".evil"])
@pytest.mark.parametrize("kind", ["crate", "host"])
def test_a_program_of_a_vpn_is_no_path(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "added/vpn-configs/evil"
    folder.mkdir(parents=True)
    (folder / "vpn.json").write_text(
        json.dumps({"programs": {name: {kind: "evil", "version": "1", "sha256": "0"}}})
    )
    code = {"vpn-configs/evil": folder}
    with pytest.raises(InputError, match="is no name of a program, like boringtun-cli"):
        build(tmp_path, code) if kind == "crate" else host_programs(code, tmp_path)


def test_a_recipe_installs_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even as root: the user is told.

    What is no name of a package would be an option of apt.
    """
    with pytest.raises(SetupError, match="install them with: sudo apt-get install openssh-server"):
        ensure_tools({"evil-tool": "openssh-server"}, install=False)
    with pytest.raises(InputError, match="is no name of a Debian package"):
        ensure_tools({"evil-tool": "-oDPkg::Pre-Invoke::=id"})
