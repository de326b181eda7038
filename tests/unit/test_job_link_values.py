# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused of a return link that has to be asked for, and of a forward link in frames."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.job_code import load

from openbach_jobs import presets
from openbach_run.commands import main

satcom_link = load("satcom_link")


@pytest.mark.parametrize(
    ("given", "orbit", "said"),
    [
        ({"access": "dama"}, "geo", "access=dama: this satellite says nothing of a return link"),
        ({"access": "dama"}, "leo", "access=dama: this satellite says nothing of a return link"),
        ({"dama_values": "cra=1M"}, "geo", "dama_values=cra=1M has no effect with access=assigned"),
        ({"return_rate": "1M"}, "geo_rcs2", "return_rate=1M has no effect with access=dama"),
        ({"dama_values": "cra"}, "geo_rcs2", "'cra' is not like cra=100k;rbdc=2M, or none"),
        ({"dama_values": "cra=1;cra=2"}, "geo_rcs2", "dama.cra is given twice"),
        ({"link_file": "mine.csv"}, "geo_rcs2", "not of a link file, a constellation"),
        ({"forward": "dvbs2"}, "geo", "forward=dvbs2: this satellite says nothing of a forward"),
        ({"forward_values": "symbols=1M"}, "geo", "forward_values=symbols=1M has no effect with"),
        ({"es_n0_file": "a.csv"}, "geo", "es_n0_file=a.csv has no effect with forward=rate"),
        ({"rate": "10M"}, "geo_dvbs2", "rate=10M has no effect with forward=dvbs2"),
        ({"return_rate": "same"}, "geo_dvbs2", "return_rate=same: with forward=dvbs2 there is no"),
        ({"forward_values": "symbols"}, "geo_dvbs2", "'symbols' is not like symbols=20M"),
        ({"forward_values": "fair=time;fair=time"}, "geo_dvbs2", "forward.fair is given twice"),
        ({"link_file": "mine.csv"}, "geo_dvbs2", "not of a link file, a constellation"),
    ],
)
def test_what_does_not_go_together(given: dict[str, str], orbit: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        presets.in_force(given, presets.find(orbit))


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "cra: 5k\n": "cra is a value of access: dama, which is not given",
        "access: dama\n": "one of dama.cra, dama.rbdc, dama.vbdc_bytes and dama.fca is above 0",
        "access: dama\ncra: fast\n": "line 2: dama.cra: 'fast' is not a rate in bit/s",
        "access: dama\ncra: 1k\ncra: 2k\n": "line 3: cra is given twice",
        "dama_values: cra=1k\n": "unknown: dama_values",
        "access: dama\ncra: 1k\naltitude_km: 800\n": "not of a link file, a constellation",
        "forward_fair: time\n": "forward_fair is a value of forward: dvbs2, which is not given",
        "forward: dvbs2\n": "return_rate=same: with forward=dvbs2 there is no rate",
        "forward: dvbs2\nforward_fair: me\n": "line 2: forward.fair: 'me' is none of bytes, time",
        "forward: dvbs2\nforward_fair: time\nforward_fair: time\n": "line 3: forward_fair is given twice",
        "forward_values: fair=time\n": "unknown: forward_values",
        "forward_label: 3\n": "did you mean forward_label_bytes (in bytes)?",
        "forward: dvbs2\nreturn_rate: 1M\naltitude_km: 800\n": "not of a link file, a constellation",
    }.items(),
)
def test_what_a_satellites_file_cannot_say(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(text)
    with pytest.raises(presets.PresetError, match=re.escape(said)):
        presets.read(file)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--access=dama", "a return link that has to be asked for"),
        ("--forward=dvbs2", "a forward link"),
    ],
)
def test_the_job_refuses_the_same(
    option: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        satcom_link.parse([option, "geo", "to_st", "to_gw", "run"])
    assert f"this satellite says nothing of {what}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("orbit", "value", "what"),
    [
        ("geo_rcs2", "access=dama", "a return link that has to be asked for"),
        ("geo_dvbs2", "forward=dvbs2", "a forward link in frames"),
    ],
)
def test_a_real_platform_is_refused_and_opensand_is_named(
    orbit: str,
    value: str,
    what: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("controller").write_text(
        '{"controller": "http://127.0.0.1:9/", "login": "admin", "password": "secret"}'
    )
    words = ["geo", f"orbit={orbit}", "vpn=none", "cc=bbr", "--engine", "controller"]
    assert main.main(words) == 2
    said = capsys.readouterr().err
    assert f"{value}: a real platform needs {what}" in said
    assert "netem cannot do it, and OpenSAND can" in said
