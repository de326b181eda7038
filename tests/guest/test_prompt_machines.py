# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands and own programs on machines of other kinds: the same output, files and packets."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.guest_runs import REPOSITORY
from helpers.terminals import terminal

from openbach_run.engine.virtual.jail import MODES, PARTIAL, VARIABLE

ENDS = REPOSITORY / "tests/guest/ends"
PATH = ("geo", "vpn=wireguard", "cc=cubic", "loss=1")
FILES = (
    "ping -c 3 server; echo hi > f; chmod 600 f; touch -d 2020-01-01 f; ls -l f;"
    " mkdir d && mv f d/g; cp -a d e; cat /etc/hostname; ls /root /var/lib"
)
OTHER_CPU = (
    "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-SSE4_2,-SSE4_1,-SSSE3,-ERMS,-FSRM,-BMI2"
)
OWN = """\
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *found;
	char sent[64] = { 0 };
	int fd;

	if (getaddrinfo("server", "7000", &hints, &found))
		return 1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen))
		return 1;
	snprintf(sent, sizeof(sent), "%.3f", cos(strlen(strchr("a-b", '-'))));
	return write(fd, sent, sizeof(sent)) < 0;
}
"""


def command(*words: str, cwd: Path, jail: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), VARIABLE: jail}
    return subprocess.run(
        [sys.executable, "-m", "openbach_run", *words],
        check=False, cwd=cwd, capture_output=True, text=True, env=environment,
    )  # fmt: skip


def content(directory: Path) -> dict[str, str]:
    """The hash of each file below a directory, by its name."""
    files = [file for file in directory.rglob("*") if file.is_file()]
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def test_commands_do_the_same_in_each_jail(tmp_path: Path) -> None:
    done = {}
    for mode in MODES:
        words = ("exec", *PATH, "--quiet", "--pcap", "-o", mode, "--", "pc", FILES)
        done[mode] = command(*words, cwd=tmp_path, jail=mode)
        assert done[mode].returncode == 0, done[mode].stderr
    best, alone = (done[mode] for mode in MODES)
    assert "\nguest\n" in best.stdout and "-rw------- 1 root root 3 Jan  1  2020 f" in best.stdout
    assert alone.stdout == best.stdout
    assert PARTIAL in alone.stderr and PARTIAL not in best.stderr
    found = [content(tmp_path / mode) for mode in MODES]
    assert {*found[0]} == {"capture.pcapng", "d/g", "e/g"}
    assert found[0] == found[1]


def test_own_programs_do_the_same_in_each_jail(tmp_path: Path) -> None:
    for file in ENDS.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text())
        (tmp_path / file.name).chmod(0o755)
    seen = []
    for mode in MODES:
        done = command(
            *("try", *PATH, "--seeds", "2", "--quiet", "--payload", "50k", "--received", "got"),
            *("--server", "./serve.py payload 20000", "--client", "./fetch.py got", "-o", mode),
            cwd=tmp_path,
            jail=mode,
        )
        assert done.returncode == 0, done.stderr + done.stdout
        seen.append(json.loads((tmp_path / mode / "results.json").read_text()))
    assert seen[0] == seen[1]
    assert "packets" in json.dumps(seen[0])


def test_a_prompt_in_landlock_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "landlock")
    with terminal("geo", "vpn=none", "cc=cubic", cwd=tmp_path) as one:
        one.until("pc$ ")
        assert "1 received" in one.run("ping -c 1 server")
        assert "guest" in one.run("cat /etc/hostname")
        one.run("echo kept > file && chmod 600 file")
        assert "kept" in one.run("on server cat file")
        one.type("exit 6\n")
        assert one.code() == 6
    assert (tmp_path / "results/shell.txt").read_text().startswith("pc ping -c 1 server\n")


@pytest.mark.parametrize(
    "line", ["iperf3 -c server -R -n 100k", "python3 -c 'import ssl'", "./own"]
)
def test_another_cpu_changes_no_packet_of_a_command(tmp_path: Path, line: str) -> None:
    """Glibc is told of a CPU without most extensions: other code, and other places of libraries.

    The packets of a command that only starts follow from when it has ended.
    """
    (tmp_path / "own.c").write_text(OWN)
    subprocess.run(["gcc", "own.c", "-o", "own", "-lm"], check=True, cwd=tmp_path)
    found = []
    # Another name has no effect, and the same length.
    for name in ("GLIBC_TUNABLES", "GLIBC_TUNABLEX"):
        words = ("exec", *PATH, "--quiet", "--pcap", "--file", "own", "-o", name, "--", "server")
        served = ("iperf3 -s -p 7000 &", "pc", f"export {name}={OTHER_CPU}; {line}; ping -c 1 box")
        done = command(*words, *served, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found.append(content(tmp_path / name)["capture.pcapng"])
    assert found[0] == found[1]
