# SPDX-License-Identifier: GPL-3.0-or-later
"""`--against DIR`: what is worse than in earlier results, for scenarios and for measured scripts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.fake_engine import METADATA, FakeEngine, write_lines

from openbach_run.campaign import engines
from openbach_run.campaign.sub_runs import parquet_of
from openbach_run.commands import main
from openbach_run.engine.contract import OnEvent, Outcome

Run = Callable[..., tuple[int, str]]
GEO = ("geo", "vpn=none", "cc=cubic", "pep=none", "size=1M", "loss=0,1", "--seeds", "3")
MEASURED = ("exec", "geo", "vpn=none", "cc=cubic", "--measure", "rtt_ms=time=([\\d.]+)")
PING = ("--", "pc", "ping -c 1 server")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command whose runs send `times` the usual; None sends none."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, times: float | None = 1.0) -> tuple[int, str]:
        def play(_: FakeEngine, spec: Any, run_dir: Path, __: OnEvent) -> Outcome:
            if times is None and spec["seed"] == 2:
                return Outcome("Finished Ko", 3.0, 0.1, "00", "no route")
            (run_dir / "run.json").write_text(json.dumps(spec))
            value = (times or 1.0) * (10 + spec["seed"] / 100)
            job = "measured_command" if "rtt_ms" in str(spec["scenario"]) else "file_transfer"
            sent = {"rtt_ms": value, "transfer_time_s": value, "goodput_bps": 1e6 * value}
            write_lines(
                run_dir / "statistics.jsonl", {**sent, "_metadata": {**METADATA, "job_name": job}}
            )
            return Outcome("Finished Ok", 40.0, 1.0, "ab", None)

        monkeypatch.setattr(engines, "VirtualEngine", lambda *_, **__: FakeEngine(play))
        code = main.main([*words[:1], "--quiet", *words[1:]])
        return code, capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("times", "more", "code", "said"),
    [
        (1.2, [], 3, "geo loss=1: worse: transfer_time_s +20.0% (+20.0% to +20.0%), 3 seeds, tol"),
        (1.2, ["--tolerance", "30%"], 0, "loss=0: no worse: transfer_time_s +20.0%"),
        (0.8, [], 0, "loss=0: better: transfer_time_s -20.0%"),
        (None, [], 3, "loss=1: worse: seed 2: no transfer_time_s any more"),
        (0.8, ["duration_s=9"], 3, "loss=1: worse: goodput_mbps -20.0%"),
        (1.2, ["duration_s=9"], 0, "loss=1: better: goodput_mbps +20.0%"),
    ],
)
def test_a_scenario(run: Run, times: float | None, more: list[str], code: int, said: str) -> None:
    own = [word for word in more if "=" in word]
    words = [word for word in GEO if not own or not word.startswith("size")]
    assert run(*words, *own, "--results", "before")[0] == 0
    found = run(*words, *more, "--results", "now", "--against", "before", times=times)
    assert found[0] == code and said in found[1], found


def test_a_measured_script_as_words_and_as_a_file(run: Run, tmp_path: Path) -> None:
    assert run(*MEASURED, "--results", "before", "--seeds", "2", *PING)[0] == 0
    now = ("--results", "now", "--against", "before", "--seeds", "2")
    code, said = run(*MEASURED, *now, *PING, times=1.2)
    assert code == 3 and "geo_ping: worse: rtt_ms +20.0%" in said
    kept = ("results/geo_ping.yml", "vpn=none", "cc=cubic")
    code, said = run(*kept, *now, "--rerun", times=1.01)
    assert code == 0 and "geo_ping: no worse: rtt_ms +1.0%" in said
    (tmp_path / "results/geo_ping.yml").write_text(
        (tmp_path / "results/geo_ping.yml").read_text().replace("rtt_ms:", "count:")
    )
    code, said = run(*kept, *now)
    assert code == 2 and "does not say whether less or more of its count is better" in said


def test_what_is_no_comparison_is_refused(run: Run) -> None:
    code, said = run(*GEO, "--against", "nowhere")
    assert code == 2 and "nowhere: no results of a campaign" in said
    assert run(*GEO, "--results", "before")[0] == 0
    code, said = run(*GEO, "--results", "before", "--against", "before")
    assert code == 2 and "these results go there, too" in said
    code, said = run(*GEO, "rate=2M", "--results", "now", "--against", "before")
    assert code == 2 and "before: no results of geo with any of these values" in said
    assert run(*GEO, "--tolerance", "5%")[1].endswith("--tolerance goes with --against DIR\n")
    code, said = run(*GEO, "--against", "before", "--tolerance", "-1")
    assert code == 2 and "--tolerance -1: a part" in said
    # A record that another one has replaced is not looked at; that of a run in the list is checked.
    for number, file in enumerate([*Path("before/runs").glob("*/record.json")]):
        forged = file.read_text().replace('"transfer_time_s": ', '"transfer_time_s": -')
        replaced = shutil.copytree(file.parent, file.parents[1] / f"{number:f>16}")
        (replaced / file.name).write_text(forged.replace(file.parent.name, replaced.name))
    code, said = run(*GEO, "--results", "now", "--against", "before")
    assert code == 0 and "loss=1: no worse: transfer_time_s +0.0%" in said
    file.write_text(forged)
    code, said = run(*GEO, "--results", "now", "--against", "before")
    assert code == 2 and "transfer_time_s is -10.0" in said


LINK = "time_s,direction,rate_bps,delay_ms\n0,both,10000000,250\n"


@pytest.mark.parametrize(
    ("words", "file", "text"),
    [
        ("link_file=own.csv", "own.csv", LINK),
        ("orbit=own --with .", "satellites/own.csv", LINK),
        ("es_n0_file=own orbit=geo_dvbs2", "own", "time_s,terminal,es_n0_db\n0,all,10\n"),
        ("vpn.config=own.conf", "own.conf", "[Interface]\nMTU = 1400\n"),
    ],
)
def test_contents_of_a_file_are_told_apart(run: Run, words: str, file: str, text: str) -> None:
    """A cell has the file's name alone: WireGuard at 50 ms was compared with no VPN at 250 ms."""
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(text)
    asked = ("geo", "vpn=wireguard", "cc=bbr", "size=1M", *words.split(), "--seeds", "2")
    assert run(*asked, "loss=0,1", "--results", "before")[0] == 0
    shutil.copytree("before", "now")
    assert run(*asked, "loss=2", "--results", "now")[0] == 0
    assert Path("now/campaign.json").read_text().count("run_id") == 6
    Path(file).write_text(text.replace("0\n", "1\n"))
    refused = [run(*asked, "loss=1", "--results", "now", "--against", "before", "--rerun")]
    assert Path("now/campaign.json").read_text().count("run_id") == 2
    for place in ("before", str(parquet_of(Path("before")))):
        refused.append(run("report", place, "now", "-o", "report"))
    for code, said in refused:
        assert code == 2 and "=own" in said and ": the file had another content in run " in said
