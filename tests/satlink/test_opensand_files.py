# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSAND's own files as a satellite: every value, what is not modelled, and hostile files."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openbach_jobs import dama, presets
from openbach_jobs.link_file import LinkFileError
from openbach_run.errors import InputError
from satlink import command as link
from satlink import opensand_files, opensand_unmodelled, xml_file
from satlink.opensand_files import Options
from satlink.opensand_satellite import Satellite

Tree = Mapping[str, Any]
"""Names → texts, trees, or lists of the trees of items."""

FIFOS = [
    {"priority": str(rank), "name": name, "capacity": size, "access_type": "DAMA_RBDC"}
    for rank, (name, size) in enumerate(
        [("NM", "100"), ("EF", "100"), ("SIG", "100"), ("AF", "200"), ("BE", "600")]
    )
]
PHYSICAL = {
    "delay": {"delay_type": "ConstantDelay", "delay_value": "120"},
    "uplink_attenuation": {
        "clear_sky": "20",
        "attenuation_type": "Ideal",
        "ideal_attenuation_value": "5",
    },
    "downlink_attenuation": {
        "clear_sky": "18.5",
        "attenuation_type": "Ideal",
        "ideal_attenuation_value": "0.5",
    },
}
TERMINAL: dict[str, Any] = {
    "control_plane": {"disable_control_plane": "false"},
    "network": {"st_fifos": FIFOS, "qos_classes": [{"pcp": "3", "name": "CA", "fifo": "EF"}]},
    "encap": {"rle": {"alpdu_protection": "CRC"}},
    "access": {
        "settings": {"category": "Standard", "dama_enabled": "true"},
        "dama": {
            "cra": "64",
            "rbdc_enabled": "true",
            "rbdc_max": "2048",
            "algorithm": "Legacy",
            "duration": "20",
        },
    },
    "physical_layer": PHYSICAL,
}
GATEWAY: dict[str, Any] = {
    "network": {
        "gw_fifos": [],
        "fca": "16",
        "dama_algorithm": "Legacy",
        "simulation": "Random",
        "simulation_nb_station": "12",
        "simulation_mean_requests": "300",
        "simulation_amplitude_request": "120",
    },
    "physical_layer": {**PHYSICAL, "delay": {"delay_type": "ConstantDelay", "delay_value": "130"}},
}
ROBUST = {"id": "4", "efficiency": "0.87", "threshold": "2.34", "burst_length": "536 sym"}
BETTER = {"id": "8", "efficiency": "1.70", "threshold": "8.08", "burst_length": "536 sym"}
LONG = {"id": "18", "efficiency": "1.75", "threshold": "7.49", "burst_length": "1616 sym"}
TOO_GOOD = {"id": "12", "efficiency": "2.87", "threshold": "14.9", "burst_length": "536 sym"}
SPOT: dict[str, Any] = {
    "assignments": {"gateway_id": "7", "return_regen_level": "Transparent"},
    "roll_off": {"forward": "0.35", "return": "0.2"},
    "forward_band": [
        {"bandwidth": "2700", "type": "ACM", "wave_form": "1;3", "group": "Standard"},
        {"bandwidth": "99999", "type": "ACM", "wave_form": "1", "group": "Premium"},
    ],
    "return_band": [
        {"bandwidth": "1200", "type": "DAMA", "wave_form": "4-20", "group": "Standard"},
        {"bandwidth": "9999", "type": "DAMA", "wave_form": "4", "group": "Premium"},
        {"bandwidth": "9999", "type": "ALOHA", "wave_form": "4", "group": "Standard"},
    ],
}
TOPOLOGY: dict[str, Any] = {
    "frequency_plan": {"spots": [SPOT]},
    "st_assignment": {
        "defaults": {"default_gateway": "7", "default_group": "Standard"},
        "assignments": [{"terminal_id": "9", "gateway_id": "7", "group": "Premium"}],
    },
    "wave_forms": {
        "dvb_s2": [
            {"id": "1", "efficiency": "0.5", "threshold": "-2"},
            {"id": "3", "efficiency": "2.5", "threshold": "9"},
        ],
        "dvb_rcs2": [ROBUST, BETTER, LONG, TOO_GOOD],
    },
    "advanced_settings": {
        "links": {
            "forward_duration": "10",
            "forward_margin": "0",
            "return_duration": "25",
            "return_margin": "1",
        },
        "schedulers": {"burst_length": "536 sym"},
        "timers": {"synchro": "510"},
    },
}
INFRASTRUCTURE: dict[str, Any] = {
    "entity": {"entity_type": "Terminal", "entity_st": {"entity_id": "9"}},
    "infrastructure": {"terminals": [{"entity_id": "9", "emu_address": "192.0.2.9"}]},
}
VALUES = {
    "delay_ms": "250",
    "rate": "5000000",
    "buffer": "600p",
    "access": "dama",
    "algorithm": "opensand",
    "superframe_ms": "25",
    "request_period_ms": "500",
    "request_rtt_ms": "500",
    "rbdc_life": "21",
    "vbdc_life": "21",
    "symbols": "1000000",
    "waveform": "8",
    "label_bytes": "3",
    "check_bytes": "4",
    "cra": "64k",
    "rbdc": "2048k",
    "fca": "16k",
    "simulated": "12",
    "simulated_rate": "300k",
    "simulated_deviation": f"{120_000 / math.sqrt(12):.0f}",
    "simulated_off_s": "0",
    "return_rate": "2112000",
}


def lines_of(tree: Tree) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, str):
            yield f"<{name}>{value}</{name}>"
            continue
        yield f"<{name}>"
        if isinstance(value, Mapping):
            yield from lines_of(value)
        else:
            for item in value:
                yield from lines_of({"item": item})
        yield f"</{name}>"


def model(tree: Tree) -> str:
    body = "\n".join(lines_of(tree))
    return f'<?xml version="1.0"?>\n<model version="1.0.0">\n<root>\n{body}\n</root>\n</model>\n'


def changed(tree: Tree, path: str, value: Any) -> dict[str, Any]:
    """The tree with another value at a path, or without it (None)."""
    name, _, rest = path.partition("/")
    made = dict(tree)
    if rest:
        below = made[name]
        if isinstance(below, list):
            number, _, rest = rest.partition("/")
            one = changed(below[int(number)], rest, value) if rest else value
            made[name] = [*below[: int(number)], one, *below[int(number) + 1 :]]
        else:
            made[name] = changed(below, rest, value)
    elif value is None:
        del made[name]
    else:
        made[name] = value
    return made


def files(folder: Path, **trees: Tree) -> list[Path]:
    paths = []
    for name, tree in trees.items():
        paths.append(folder / f"{name}.xml")
        paths[-1].write_text(model(tree))
    return paths


ALL = {"topology": TOPOLOGY, "terminal": TERMINAL, "gateway": GATEWAY}


def found_in(folder: Path, **trees: Tree) -> Satellite:
    return opensand_files.read(files(folder, **{**ALL, **trees}), Options())


def test_every_value_is_that_of_the_files(tmp_path: Path) -> None:
    """Symbols are the band less its roll-off; the waveform gets through 13 dB less a margin of 1.

    Up 15 dB, down 18 dB: 13.2 dB together, so waveform 8 (8.08 dB) does, and 12 (14.9 dB) does not.
    """
    assert found_in(tmp_path).values == VALUES


def test_the_satellite_s_file_is_one_and_says_where_each_value_is_from(tmp_path: Path) -> None:
    paths = files(tmp_path, **ALL)
    output = tmp_path / "mine.yml"
    assert link.main(["opensand", *map(str, paths), "-o", str(output)]) == 0
    preset = presets.read(output)
    assert {**preset.values, **preset.dama} == VALUES and not preset.forward
    access = presets.access_of(presets.in_force({}, preset), preset)
    assert (access.slots, access.burst_bytes) == (46, 115)
    line = paths[1].read_text().splitlines().index("<cra>64</cra>") + 1
    assert f"cra: 64k  # terminal.xml, line {line}\n" in output.read_text()


def test_a_forward_carrier_of_dvb_s2_is_sent_in_frames(tmp_path: Path) -> None:
    """13.24 dB are enough for 32APSK 3/4, of 3.703 bit/symbol, and not for 4/5."""
    waveform = {"id": "3", "efficiency": "3.703", "threshold": "12.73"}
    topology = changed(TOPOLOGY, "wave_forms/dvb_s2/1", waveform)
    timers = {"synchro": "510", "acm_refresh": "1000"}
    topology = changed(topology, "advanced_settings/timers", timers)
    paths = files(tmp_path, **{**ALL, "topology": topology})
    output = tmp_path / "mine.yml"
    assert link.main(["opensand", *map(str, paths), "-o", str(output)]) == 0
    preset = presets.read(output)
    assert preset.values["forward"] == "dvbs2" and preset.values["rate"] == "7406000"
    assert preset.forward == {
        "symbols": "2000000",
        "es_n0_db": "13.24",
        "loop_ms": "1000",
        "margin_db": "0",
        "hysteresis_db": "0",
    }
    forward = presets.forward_of(presets.in_force({}, preset), preset)
    assert forward.most_bps == pytest.approx(2e6 * 3.703, rel=0.001)
    found = opensand_files.read(files(tmp_path, **ALL), Options())
    assert any(one.startswith("the forward link is a rate: at 13.24 dB") for one in found.remarks)


def test_files_are_told_by_their_content_in_any_order(tmp_path: Path) -> None:
    paths = files(tmp_path, **ALL)
    for order in (paths[::-1], [*paths[1:], paths[0]]):
        assert opensand_files.read(order, Options()).values == VALUES


def test_what_is_not_modelled_is_named_with_its_line_and_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = changed(TERMINAL, "network/secret_setting", "on")
    paths = files(tmp_path, **{**ALL, "terminal": tree})
    assert link.main(["opensand", *map(str, paths), "-o", str(tmp_path / "mine.yml")]) == 0
    said = capsys.readouterr().out
    line = paths[1].read_text().splitlines().index("<secret_setting>on</secret_setting>") + 1
    assert f"terminal.xml, line {line}: network/secret_setting = on: is not known" in said
    assert re.search(r"topology\.xml, lines? .*dvb_rcs2.*other waveforms", said)
    assert re.search(r"terminal\.xml, line .*qos_classes/item\[1\]/fifo = EF: another class", said)
    assert "another FIFO's size" in said
    assert "cra" not in said.split("not modelled")[1]


def test_every_value_is_either_used_or_named(tmp_path: Path) -> None:
    """No leaf of a file is passed over in silence."""
    for path in files(tmp_path, **ALL, infrastructure=INFRASTRUCTURE):
        root = xml_file.read(path)
        kind = path.stem
        lines = opensand_unmodelled.not_read(kind, root)
        leaves = [one for one in root.leaves() if one.text]
        counted = sum(
            int(found[1]) if (found := re.search(r": (\d+) values", one)) else 1 for one in lines
        )
        assert counted == len(leaves)


def test_a_terminal_s_own_group_is_that_of_its_number(tmp_path: Path) -> None:
    found = found_in(tmp_path, infrastructure=INFRASTRUCTURE, terminal=TERMINAL)
    assert found.values["symbols"] == f"{round(9_999_000 / 1.2)}"
    assert found.values["waveform"] == "4"


def test_volumes_are_asked_for_only_by_a_fifo_that_does(tmp_path: Path) -> None:
    asks = changed(
        changed(TERMINAL, "access/dama/vbdc_enabled", "true"), "access/dama/vbdc_max", "55"
    )
    found = found_in(tmp_path, terminal=asks)
    assert "vbdc_bytes" not in found.values
    assert any(line.startswith("vbdc: no FIFO") for line in found.remarks)
    asks = changed(asks, "network/st_fifos/4/access_type", "DAMA_VBDC")
    assert found_in(tmp_path, terminal=asks).values["vbdc_bytes"] == "6875"


def test_without_the_gateway_s_profile_it_is_assumed_and_said(tmp_path: Path) -> None:
    found = opensand_files.read(files(tmp_path, topology=TOPOLOGY, terminal=TERMINAL), Options())
    assert found.values["delay_ms"] == "240" and "fca" not in found.values
    assert any("without the gateway's profile" in line for line in found.remarks)


WRONG = [
    ("terminal", "access/dama/cra", "-4", "'-4' is not a rate in kbit/s"),
    ("terminal", "access/dama/cra", "64.5", "whole"),
    ("terminal", "access/dama/cra", "lots", "'lots' is not a rate"),
    ("terminal", "access/dama/cra", "9999", "dama.cra=9999k of 13 terminals is more than"),
    ("terminal", "access/dama/cra", None, "there is no access/dama/cra"),
    ("terminal", "access/dama/algorithm", "Mine", "'Mine' is none of Legacy"),
    ("terminal", "access/settings/dama_enabled", "false", "does not ask for capacity"),
    ("terminal", "access/settings/dama_enabled", "maybe", "none of true, false"),
    ("terminal", "access/dama/rbdc_max", None, "rbdc_max is missing"),
    ("terminal", "control_plane/disable_control_plane", "true", "nothing is asked for"),
    ("terminal", "encap/rle/alpdu_protection", "Magic", "none of Sequence Number, CRC"),
    ("terminal", "physical_layer/delay/delay_type", "FileDelay", "--delay-ms"),
    ("terminal", "physical_layer/uplink_attenuation/clear_sky", "warm", "'warm' is not a C/N"),
    ("terminal", "network/qos_classes/0/pcp", "9", "'9' is not a PCP"),
    ("gateway", "network/simulation", "File", "not modelled"),
    ("gateway", "network/simulation_nb_station", "5000", "'5000' is not a number of terminals"),
    ("topology", "frequency_plan/spots/0/roll_off/return", "12", "'12' is not a roll-off"),
    ("topology", "frequency_plan/spots/0/assignments/gateway_id", "8", "no spot has the gateway '7'"),
    ("topology", "frequency_plan/spots/0/assignments/return_regen_level", "IP", "transparent"),
    ("topology", "frequency_plan/spots/0/return_band/0/wave_form", "4-", "is not like 3-12"),
    ("topology", "frequency_plan/spots/0/return_band/0/wave_form", "4-999999", "at most 1000"),
    ("topology", "frequency_plan/spots/0/return_band/0/wave_form", "2", "none of them"),
    ("topology", "frequency_plan/spots/0/return_band/0/group", "SNO", "no carrier of type DAMA"),
    ("topology", "frequency_plan/spots/0/return_band/0/bandwidth", "0", "a bandwidth in kHz"),
    ("topology", "frequency_plan/spots/0/return_band/0/bandwidth", "2", "makes 0 bursts of a superframe"),
    ("topology", "frequency_plan/spots/0/return_band/0/bandwidth", "1", "is not a symbol rate"),
    ("topology", "wave_forms/dvb_rcs2/1/efficiency", "0.2", "by DVB-RCS2 it carries 115"),
    ("topology", "wave_forms/dvb_rcs2/1/efficiency", "inf", "efficiency is above 0"),
    ("topology", "wave_forms/dvb_rcs2/1/id", "4", "a second waveform 4"),
    ("topology", "wave_forms/dvb_s2/0/threshold", "none", "are numbers"),
    ("topology", "advanced_settings/schedulers/burst_length", "99 sym", "536 sym, 1616 sym"),
    ("topology", "advanced_settings/links/return_duration", "0.1", "a duration in ms from 1 to 1000"),
    ("topology", "advanced_settings/timers/synchro", "3", "no whole superframe"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "path", "value", "said"), WRONG)
def test_a_wrong_value_is_refused_with_its_file_and_line(
    kind: str, path: str, value: str | None, said: str, tmp_path: Path
) -> None:
    with pytest.raises(LinkFileError) as refused:
        found_in(tmp_path, **{kind: changed(ALL[kind], path, value)})
    assert said in str(refused.value)
    assert re.search(r"\.xml, line \d+: ", str(refused.value))


WHOLE = model(TERMINAL)
HOSTILE = {
    "an external entity": '<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<model>&x;</model>',
    "entities of entities": '<!DOCTYPE m [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><model>&b;</model>',
    "an entity without a type": "<model>&lol;</model>",
    "cut off": WHOLE[: len(WHOLE) // 2],
    "two roots": "<model></model><model></model>",
    "an older version": "<?xml version='1.0'?><configuration component='st'/>",
    "a newer version": '<model version="9.9"><root/></model>',
    "another file": '<model version="1.0.0"><root><cooking/></root></model>',
    "too deep": "<a>" * 60 + "</a>" * 60,
    "too many": "<a>" + "<b/>" * 60_000 + "</a>",
    "another encoding": "<?xml version='1.0' encoding='klingon'?><model/>",
    "text between elements": WHOLE.replace("<root>", "<root>stray"),
    "an element given twice": WHOLE.replace("<cra>64</cra>", "<cra>64</cra><cra>65</cra>"),
    "an element in a value": WHOLE.replace("<cra>64</cra>", "<cra><b>64</b></cra>"),
    "a null byte": "<model>\0</model>",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    paths = files(tmp_path, topology=TOPOLOGY, terminal=TERMINAL)
    paths[1].write_text(HOSTILE[name])
    with pytest.raises(LinkFileError, match=r"terminal\.xml"):
        opensand_files.read(paths, Options())


def test_no_file_of_an_entity_is_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    os.mkfifo(secret)  # opening it would wait for ever
    paths = files(tmp_path, topology=TOPOLOGY, terminal=TERMINAL)
    paths[1].write_text(f'<!DOCTYPE m SYSTEM "{secret}">\n<model/>')
    with pytest.raises(LinkFileError, match=r"terminal\.xml, line 1: it has a document type"):
        opensand_files.read(paths, Options())


def test_what_is_no_file_or_too_large_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(LinkFileError, match="not a file"):
        xml_file.is_xml(pipe)
    large = tmp_path / "large.xml"
    with large.open("wb") as file:
        file.truncate(xml_file.MOST_BYTES + 1)
    with pytest.raises(LinkFileError, match="much smaller"):
        xml_file.read(large)


def test_two_of_one_kind_or_one_alone_are_refused(tmp_path: Path) -> None:
    topology, terminal = files(tmp_path, topology=TOPOLOGY, terminal=TERMINAL)
    with pytest.raises(LinkFileError, match="a second one of a terminal's profile"):
        opensand_files.read([topology, terminal, terminal], Options())
    with pytest.raises(LinkFileError, match="a topology is missing"):
        opensand_files.read([terminal], Options())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "mine.csv"], "ends in .yml"),
        (["-o", "mine.yml", "--loop"], "--loop is for delay files"),
        (["-o", "mine.yml", "--refresh-period-ms", "5"], "is for delay files"),
        (["-o", "mine.yml", "--gateway-id", "3"], "no spot has the gateway '3'; there are 7"),
    ],
)
def test_an_option_without_effect_is_refused(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = files(tmp_path, **ALL)
    with pytest.raises(InputError, match=said):
        link.main(["opensand", *map(str, paths), *words])
    assert {path.suffix for path in tmp_path.iterdir()} == {".xml"}


def test_delay_files_refuse_the_options_of_a_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "delays").write_text("0 10\n5 20\n")
    with pytest.raises(InputError, match="--delay-ms is for a topology"):
        link.main(["opensand", "delays", "--delay-ms", "5", "-o", "link.csv"])
    with pytest.raises(InputError, match="three delay files"):
        link.main(["opensand", "delays", "delays", "delays", "-o", "link.csv"])


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as name:
        yield Path(name)


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
@example(b"")
@example(b"\xff\xfe<\0m\0>\0")
def test_any_bytes_are_refused_or_read(content: bytes) -> None:
    with folder() as place:
        paths = files(place, topology=TOPOLOGY, terminal=TERMINAL)
        paths[1].write_bytes(content)
        with pytest.raises(LinkFileError, match=r"terminal\.xml"):
            opensand_files.read(paths, Options())


def leaf_paths(tree: Tree, before: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, str):
            yield f"{before}{name}"
        elif isinstance(value, Mapping):
            yield from leaf_paths(value, f"{before}{name}/")
        else:
            for number, item in enumerate(value):
                yield from leaf_paths(item, f"{before}{name}/{number}/")


PLACES = [(kind, path) for kind, tree in ALL.items() for path in leaf_paths(tree)]
TEXTS = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(["", "true", "false", "None", "1e9", "0x10", "٣", "3-12", "; ;", "Standard"]),
    st.text("abc-;.0123456789 \n\t", max_size=12),
)


@given(st.lists(st.tuples(st.sampled_from(PLACES), TEXTS), min_size=1, max_size=4))
def test_any_values_make_a_satellite_or_are_refused_with_a_line(
    changes: list[tuple[tuple[str, str], str | None]],
) -> None:
    """What is made can be read again, and says only what a satellite may have."""
    trees = dict(ALL)
    for (kind, path), value in changes:
        try:
            trees[kind] = changed(trees[kind], path, value)
        except KeyError:
            continue  # it was taken out before
    with folder() as place:
        try:
            found = found_in(place, **trees)
        except LinkFileError as error:
            assert re.search(r"\.xml(, line \d+)?: ", str(error))
            return
        output = place / "mine.yml"
        output.write_text("".join(f"{line}\n" for line in found.lines()))
        preset = presets.read(output)
        of_frames = {f"forward_{name}": text for name, text in preset.forward.items()}
        assert {**preset.values, **preset.dama, **of_frames} == found.values
        assert set(preset.dama) <= set(dama.VALUES)
