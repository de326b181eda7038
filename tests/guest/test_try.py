# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run try`: own programs as both ends, and comparisons of their versions."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import venv
from pathlib import Path
from xml.etree import ElementTree

import numpy
import pytest
from helpers.guest_runs import REPOSITORY, command

from openbach_run.prompt.compare import compared
from openbach_run.prompt.trial import read_results

ENDS = REPOSITORY / "tests/guest/ends"
TOLERANCE = 0.05


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a server and a client, and what they do with five and with 15 seeds."""
    place = tmp_path_factory.mktemp("try")
    for file in ENDS.glob("*.py"):
        (place / file.name).write_text(file.read_text())
        (place / file.name).chmod(0o755)
    return place


def tried(
    here: Path, *words: str, window: int = 60_000, greeting: str = "", client: str = "got"
) -> subprocess.CompletedProcess[str]:
    return command(
        *("try", "vpn=wireguard", "cc=cubic", "loss=0.5", "--quiet", "--payload", "200k"),
        *("--server", f"./serve.py payload {window} {greeting}".strip()),
        *("--client", f"./fetch.py {client}", "--received", "got", *words),
        cwd=here,
    )


def test_a_planted_regression_is_found_with_five_seeds(here: Path) -> None:
    base = tried(here, "--seeds", "5", "-o", "five")
    assert base.returncode == 0, base.stderr + base.stdout
    assert base.stdout.count("| 200000 |") == 5
    assert "other packets" not in base.stdout
    now = ("--seeds", "5", "--once", "--against", "five")
    same = tried(here, *now)
    assert same.returncode == 0, same.stdout
    assert "**no worse**: time +0.0%" in same.stdout
    half = tried(here, *now, "--junit", "j.xml", "--summary", "s.md", window=30_000)
    assert half.returncode == 3, half.stdout
    assert "**worse**: time +" in half.stdout
    assert (here / "s.md").read_text() == half.stdout
    suite = ElementTree.parse(here / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("6", "1")
    bisect = tried(here, *now, "--bisect", window=30_000)
    assert bisect.returncode == 1


@pytest.mark.nightly
def test_no_change_is_not_found_in_50_trials(here: Path) -> None:
    """A server that greets at greater length: its packets are others, and nothing is slower."""
    for name, greeting in (("before", ""), ("after", "hello")):
        done = tried(here, "--seeds", "12", "--once", "-o", name, greeting=greeting)
        assert done.returncode == 0, done.stdout
    before, after = (read_results(here / name)[1] for name in ("before", "after"))
    assert [one.packets for one in before] != [one.packets for one in after]
    drawn = random.Random(1)
    for _ in range(50):
        seeds = set(drawn.sample(range(1, 13), 5))
        now = [one for one in after if one.seed in seeds]
        then = [one for one in before if one.seed in seeds]
        assert not compared(now, then, TOLERANCE).is_worse, seeds


def test_what_arrives_is_compared_byte_for_byte(here: Path) -> None:
    done = tried(here, "--seeds", "1", "--once", "-o", "cut", client="got 7")
    assert done.returncode == 1
    assert "199993 bytes arrived, 200000 were sent; byte 199993" in done.stdout
    assert (here / "cut/seed-1/got").stat().st_size == 199_993
    assert (here / "cut/seed-1/client.stdout").read_text() == "200000 bytes\n"


@pytest.mark.parametrize(
    ("server", "client", "said"),
    [
        ("./serve.py nothere 1", "./fetch.py got", "the server ended at once: FileNotFoundError"),
        ("sleep 1000", "./fetch.py got", "the server has opened no socket in 10 s"),
        ("./serve.py payload 1000", "sleep 1000", "the client did not end in 100 virtual seconds"),
        ("./serve.py payload 1000", "exit 9", "the client: exit code 9"),
        ("./serve.py payload 1000", "true", "the client has left no file got"),
    ],
)
def test_what_goes_wrong_is_named(here: Path, server: str, client: str, said: str) -> None:
    done = command(
        *("try", "vpn=none", "cc=cubic", "loss=0", "--seeds", "1", "--once", "--quiet"),
        *("--payload", "20k", "--received", "got", "--limit", "100"),
        *("--server", server, "--client", client),
        cwd=here,
    )
    assert done.returncode == 1, done.stderr
    assert said in done.stdout


def test_a_program_of_this_machine_runs_and_its_own_clock_is_named(here: Path) -> None:
    flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE", "-std=c11")
    subprocess.run(["gcc", *flags, str(ENDS / "clock.c"), "-o", str(here / "clock")], check=True)
    done = command(
        *("try", "vpn=none", "cc=cubic", "loss=0", "--seeds", "1", "--quiet"),
        *("--payload", "10", "--received", "-", "-o", "clock-out"),
        *("--server", "./serve.py payload 10", "--client", "./clock"),
        cwd=here,
    )
    assert (here / "clock-out/seed-1/client.stdout").read_text() == "connected\n"
    assert "the same seed gave other packets" in done.stdout
    assert "the client read the CPU's clock (RDTSC: clock" in done.stdout
    assert "with this seed its packets" not in done.stdout


READS = """\
#include <stdio.h>
#include <x86intrin.h>

int main(int count, char **words)
{
	volatile unsigned constant = 0xf9010f31;

	(void)words;
	if (count > 1)
		constant = __rdtsc() > 0;
	return printf("%u\\n", constant) < 0;
}
"""
ORDINARY = ("tar", "xz", "make", "bc", "patch")


def test_a_program_that_comes_to_the_cpus_clock_is_named_and_no_other(here: Path) -> None:
    """It has the instruction, and the bytes of it in a constant; only with a word it gets there."""
    (here / "reads.c").write_text(READS)
    subprocess.run(["gcc", "-O1", "reads.c", "-o", "reads"], check=True, cwd=here)
    words = ("try", "vpn=none", "cc=cubic", "loss=0", "--seeds", "1", "--quiet", "--payload", "10")
    files: list[str] = []
    for name in ORDINARY:
        place = shutil.which(name)
        assert place is not None
        files += ["--file", place]

    def tried_by(client: str, *more: str) -> subprocess.CompletedProcess[str]:
        server = "./serve.py payload 10"
        return command(*words, *more, "--server", server, "--client", client, cwd=here)

    quiet, reads = tried_by("./reads"), tried_by("./reads now")
    assert (quiet.returncode, reads.returncode) == (0, 0), quiet.stderr + reads.stderr
    assert "RDTSC" not in quiet.stdout
    (line,) = [line for line in reads.stdout.splitlines() if "RDTSC" in line]
    assert re.match(r"the client read the CPU's clock \(RDTSC: .*\breads\b.*\); with this", line)
    together = " && ".join(["true", *(f"./{name} --version" for name in ORDINARY)])
    ordinary = tried_by(together, *files)
    assert ordinary.returncode == 0, ordinary.stdout
    assert "RDTSC" not in ordinary.stdout


SERVE = """\
import socket, sys
import numpy

with open(sys.argv[1], "rb") as file:
    content = numpy.frombuffer(file.read(), dtype="u1")
print(sys.executable, (numpy.eye(3) * 2).sum(), flush=True)
with socket.create_server(("", 4433)) as listener:
    connection, _ = listener.accept()
    with connection:
        connection.sendall((255 - content).tobytes())
"""
FETCH = """\
import socket, sqlite3, ssl
import numpy

with socket.create_connection(("server", 4433)) as connection:
    content = connection.makefile("rb").read()
with open("got", "wb") as file:
    file.write((255 - numpy.frombuffer(content, dtype="u1")).tobytes())
"""


def test_an_environment_with_compiled_packages_runs(tmp_path: Path) -> None:
    """Numpy is a wheel with shared libraries; the hosts have another Python and no numpy."""
    made = tmp_path / "venv"
    venv.create(made, with_pip=False)
    (packages,) = made.glob("lib/python*/site-packages")
    wheel = Path(numpy.__file__).parent
    for folder in (wheel, wheel.with_name("numpy.libs")):
        shutil.copytree(folder, packages / folder.name)
    assert [*packages.glob("numpy.libs/*.so*")]
    (tmp_path / "fetch.py").write_text(FETCH)
    (made / "bin/serve").write_text(f"#!{made}/bin/python\n{SERVE}")
    (made / "bin/serve").chmod(0o755)
    done = command(
        *("try", "vpn=none", "cc=cubic", "loss=0.5", "--seeds", "2", "--quiet", "-o", "out"),
        *("--payload", "30k", "--received", "got", "--file", "fetch.py"),
        *("--server", "./venv/bin/serve payload", "--client", "./venv/bin/python fetch.py"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("| 30000 |") == 2
    assert "other packets" not in done.stdout
    assert (tmp_path / "out/seed-1/server.stdout").read_text() == "/home/venv/bin/python 6.0\n"
    left = {one.name for one in (tmp_path / "out/seed-1").iterdir()}
    streams = {f"{end}.{of}" for end in ("server", "client") for of in ("stdout", "stderr")}
    assert left == {"got", *streams}


def test_a_baseline_of_another_path_is_refused(here: Path) -> None:
    assert (here / "five/results.json").exists()
    done = tried(here, "--seeds", "3", "--against", "five")
    assert done.returncode == 2
    assert "its seeds is [1, 2, 3, 4, 5], here it is [1, 2, 3]" in done.stderr
    bisect = tried(here, "--seeds", "3", "--against", "five", "--bisect")
    assert bisect.returncode == 125
