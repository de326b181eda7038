# SPDX-License-Identifier: GPL-3.0-or-later
"""Trials of own programs: what they are given, and how their versions are compared."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.commands.try_programs import main
from openbach_run.errors import InputError
from openbach_run.openbach.lines import Command
from openbach_run.prompt.compare import (
    BETTER,
    SAME,
    UNKNOWN,
    WORSE,
    compared,
    junit,
    summary,
    tolerance_of,
)
from openbach_run.prompt.cpu_clock import places
from openbach_run.prompt.programs import check_machine, copy_program, loader_of, segments
from openbach_run.prompt.trial import (
    Program,
    Seen,
    Trial,
    entries_of,
    programs_of,
    read_results,
    write_results,
)

ASKED = {"scenario": "geo", "values": {}, "seeds": [1], "payload_bytes": 0}


def seen(*times_s: float, wrong: str = "") -> list[Seen]:
    return [Seen(seed, time_s, 1000, 0, wrong, f"{seed}") for seed, time_s in enumerate(times_s, 1)]


@pytest.mark.parametrize(
    ("now", "word"),
    [
        ((10, 20, 30, 40, 50), SAME),
        ((10.4, 20.8, 31.2, 41.6, 52), SAME),
        ((11, 22, 33, 44, 55), WORSE),
        ((11, 22, 33, 44, 40), UNKNOWN),
        ((9, 18, 27, 36, 45), BETTER),
    ],
)
def test_versions_are_compared_seed_by_seed(now: tuple[float, ...], word: str) -> None:
    assert compared(seen(*now), seen(10, 20, 30, 40, 50), 0.05).word == word


def test_one_seed_decides_by_itself() -> None:
    assert compared(seen(11), seen(10), 0.05).word == WORSE
    assert compared(seen(10.4), seen(10), 0.05).word == SAME


def test_a_seed_that_fails_now_is_a_regression_and_one_that_did_before_is_none() -> None:
    good, bad = seen(10, 10), seen(10, 10, wrong="exit code 1")
    broken = compared([good[0], bad[1]], good, 0.05)
    assert broken.is_worse
    assert broken.in_words() == "seed 2: exit code 1"
    assert compared(bad, bad, 0.05).word == UNKNOWN
    assert not compared(good, bad, 0.05).is_worse


@given(st.lists(st.floats(0.1, 1e4), min_size=1, max_size=9), st.floats(0, 0.5))
def test_no_change_is_never_worse(times_s: list[float], tolerance: float) -> None:
    assert compared(seen(*times_s), seen(*times_s), tolerance).word == SAME


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("0", 0.0)])
def test_tolerances(text: str, value: float) -> None:
    assert tolerance_of(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["five", "-1%", "100%", "nan", ""])
def test_wrong_tolerances(text: str) -> None:
    with pytest.raises(InputError, match="--tolerance"):
        tolerance_of(text)


def test_the_reports_say_the_same() -> None:
    now = [*seen(11, 12), replace(seen(1, 1, 9)[2], wrong="it | \x1b[0m\nbroke")]
    verdict = compared(now, seen(10, 10, 10), 0.05)
    text = summary("mine", now, verdict, "a note")
    assert "**worse**: seed 3: it | \x1b[0m\nbroke" in text
    assert "| 1 | 11.000 | 1000 | 0.001 | well |" in text
    assert "it \\| \x1b[0m broke |" in text
    assert text.endswith("a note\n")
    suite = ElementTree.fromstring(junit("mine", now, verdict))
    assert suite.attrib["tests"] == "4"
    assert suite.attrib["failures"] == "2"
    assert [one.get("name") for one in suite.iter("testcase") if len(one)] == [
        "seed 3",
        "against the baseline",
    ]


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = [*seen(1, 2), Seen(3, None, None, None, "broke", "x")]
    write_results(tmp_path / "results.json", ASKED, written)
    assert read_results(tmp_path) == (ASKED, written)
    for wrong in ("[]", '{"seeds": [{}], "asked": {}}', '{"seeds": 1}'):
        (tmp_path / "results.json").write_text(wrong)
        with pytest.raises(InputError, match="no results of"):
            read_results(tmp_path)
    with pytest.raises(InputError, match="no results: "):
        read_results(tmp_path / "nowhere")


def test_both_ends_know_where_qlog_goes() -> None:
    plain = Trial(Program("server", "./serve"), Program("pc", "./fetch"))
    before, serve, ready, fetch = entries_of(plain)
    assert serve == Command("server", "./serve", apart=True)
    assert fetch == Command("pc", "./fetch", needs=2)
    assert isinstance(before, Command) and isinstance(ready, Command)
    logged = entries_of(replace(plain, qlog=True))
    for one in (logged[1], logged[3]):
        assert isinstance(one, Command)
        assert one.text.startswith("export QLOGDIR=/home/qlog; ./")


# Programs


def test_programs_here_are_copied_and_others_are_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    with pytest.raises(InputError, match="may not be executed"):
        programs_of("./mine 1")
    (tmp_path / "mine").chmod(0o755)
    assert programs_of("./mine 1") == ["./mine"]
    assert programs_of("iperf3 -s") == []
    assert programs_of("/usr/bin/iperf3 -s") == []
    for text, said in (
        ("./other", "no such file here"),
        (str(tmp_path / "mine"), "is ./mine on the hosts"),
        ("", "an empty command"),
        ("./mine '", "No closing quotation"),
    ):
        with pytest.raises(InputError, match=said):
            programs_of(text)


def test_a_dynamic_program_comes_with_its_libraries(tmp_path: Path) -> None:
    program = Path(sys.executable).resolve()
    assert loader_of(program.read_bytes())
    assert copy_program(program, tmp_path / "python")
    script = (tmp_path / "python").read_text()
    assert script.startswith("#!/bin/sh\nexec /home/.python/loader --library-path /home/.python")
    assert {"loader", "python", "libc.so.6"} <= {one.name for one in tmp_path.glob(".python/*")}


@given(st.binary(max_size=300))
def test_no_file_is_misread(content: bytes) -> None:
    for whole in (content, b"\x7fELF\x02" + content):
        list(segments(whole))
        loader_of(whole)
        list(places(whole))


def test_the_cpus_clock_is_looked_for_where_code_is() -> None:
    def program(flags: int) -> bytes:
        head = b"\x7fELF\x02".ljust(32, b"\0") + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 1)
        segment = struct.pack("<IIQQQQQQ", 1, flags, 120, 0, 0, 4, 4, 0)
        return head.ljust(64, b"\0") + segment + b"\x90\x0f\x31\xc3"

    assert list(places(program(flags=5))) == [(121, 2)]
    assert list(places(program(flags=4))) == []


def test_a_program_of_another_machine_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "arm"
    file.write_bytes(b"\x7fELF\x02".ljust(18, b"\0") + struct.pack("<H", 183))
    with pytest.raises(InputError, match="no program for x86-64"):
        check_machine(file)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tolerance", "5%"], "--tolerance goes with --against"),
        (["--bisect"], "--bisect goes with --against"),
        (["--pcap"], "--pcap and --qlog"),
        (["--limit", "0"], "--limit 0"),
        (["--seeds", "x"], "--seeds x"),
        (["--payload", "3G"], "--payload 3G"),
        (["--payload", "0"], "--payload 0"),
        (["--received", "/etc/passwd"], "--received /etc/passwd"),
        (["--at", "server", "moon"], "--at moon: there are"),
        (["--against", "nowhere"], "nowhere: no results"),
        (["size=3M"], "size: has no effect"),
    ],
)
def test_try_refuses_before_a_guest_starts(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "--bisect" in words:
        assert main(["--server", "true", "--client", "true", *words]) == 125
        assert said in capsys.readouterr().err
        return
    with pytest.raises(InputError, match=said):
        main(["--server", "true", "--client", "true", *words])
