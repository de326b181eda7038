# SPDX-License-Identifier: GPL-3.0-or-later
"""Satellites' presets, and which of a link's values are in force."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from openbach_jobs import constellation, presets, reconfigurations
from openbach_jobs.presets import Buffer, Preset

ROOT = Path(__file__).resolve().parents[2]
OURS = sorted((ROOT / "library/satellites").glob("*.yml"))


def made(place: Path, text: str, name: str = "mine.yml") -> Path:
    file = place / name
    file.write_text(text)
    return file


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.stem)
def test_our_presets_are_what_a_yaml_library_reads(file: Path) -> None:
    preset = presets.read(file)
    wanted = {
        name: value
        for name, value in yaml.safe_load(file.read_text()).items()
        if name not in presets.FOR_PEOPLE
    }
    values = {
        name: float(wanted.pop(name)) for name in list(wanted) if name in presets.CONSTELLATION
    }
    of_grid = reconfigurations.Reconfigurations.parameters()
    grid = {name: float(wanted.pop(name)) for name in list(wanted) if name in of_grid}
    of_frames = {f"forward_{name}": text for name, text in preset.forward.items()}
    read = {**preset.values, **preset.dama, **of_frames}
    assert read == {name: str(value) for name, value in wanted.items()}
    assert {name: getattr(preset.constellation, name) for name in values} == values
    assert {name: getattr(preset.reconfigurations, name) for name in grid} == grid


@pytest.mark.parametrize(
    ("name", "rtt_ms"), [("leo", 38), ("starlink", 46), ("starlink_isl", 154), ("oneweb", 49)]
)
def test_the_documented_round_trips_are_those_of_the_presets(name: str, rtt_ms: int) -> None:
    """The figures of docs/leo.md and docs/satellites.md."""
    preset = presets.find(name)
    orbit, grid = preset.constellation, preset.reconfigurations
    base_ms = constellation.mean_rtt_ms(orbit) if orbit else 2 * float(preset.values["delay_ms"])
    assert round(base_ms + (grid.mean_rtt_ms if grid else 0)) == rtt_ms
    page = (ROOT / "docs/leo.md").read_text()
    assert re.search(rf"\| .*`{name}`.* \| {rtt_ms} ms \|", page)


def test_leo_hold_is_leo_under_another_name() -> None:
    assert presets.find("leo_hold") == presets.find("leo")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("grid_s: 15\ngrid_phase_s: 15\n", "grid_phase_s is 15: it must be below grid_s"),
        ("lossy_pct: 50\n", "lossy_pct and lossy_ms belong together"),
        ("lossy_ms: 50\n", "lossy_pct and lossy_ms belong together"),
        ("lossy_pct: 101\n", "lossy_pct is 101"),
        ("held_ms: 9000\ngrid_s: 5\n", "9000 ms together: they must be below grid_s"),
        ("altitude_km: 550\nheld_ms: 50\n", "outage_ms beside reconfigurations"),
        ("altitude_km: 550\noutage_ms: 0\ngrid_s: 10\n", "grid_s is 10, handover_s 15"),
        ("held_ms: 5\nheld_ms: 6\n", "line 2: held_ms is given twice"),
        ("held_mss: 5\n", "did you mean held_ms"),
    ],
)
def test_reconfigurations_that_make_no_sense_are_refused(
    text: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(presets.PresetError, match=said):
        presets.read(made(tmp_path, text))


def test_leo_is_the_constellation_that_link_leo_writes() -> None:
    assert presets.find("leo").constellation == constellation.Constellation()


def test_meo_has_the_round_trip_time_of_its_operator() -> None:
    """140 to 150 ms (SES)."""
    orbit = presets.find("meo").constellation
    assert orbit is not None
    assert 140 < constellation.mean_rtt_ms(orbit) < 150


def test_of_two_ways_to_say_how_long_a_loss_is_one_is_in_force(tmp_path: Path) -> None:
    def found(given: dict[str, str], **values: str) -> tuple[str, str]:
        texts = presets.in_force(given, Preset(values))
        return texts["burst_packets"], texts["burst_ms"]

    assert found({}) == ("1", "none")
    assert found({"burst_ms": "10"}) == found({}, burst_ms="10") == ("none", "10")
    assert found({"burst_ms": "10"}, burst_packets="3") == ("none", "10")
    assert found({"burst_packets": "1"}, burst_ms="10") == ("1", "none")
    assert found({"burst_packets": "none", "burst_ms": "10"}) == ("none", "10"), (
        "as a record has it"
    )
    with pytest.raises(ValueError, match="burst_packets and burst_ms: give one of them"):
        found({"burst_packets": "3", "burst_ms": "10"})
    with pytest.raises(presets.PresetError, match="burst_packets and burst_ms: give one of them"):
        presets.read(made(tmp_path, "burst_packets: 3\nburst_ms: 10\n"))


@pytest.mark.parametrize(
    ("text", "buffer"),
    [
        ("1BDP", Buffer(1, "BDP")),
        (".5BDP", Buffer(0.5, "BDP")),
        ("150kB", Buffer(150_000, "bytes")),
        ("100p", Buffer(100, "packets")),
        ("1.5MB", Buffer(1_500_000, "bytes")),
        ("3028B", Buffer(2 * 1514, "bytes")),
    ],
)
def test_a_buffer_is_in_bdp_bytes_or_packets(text: str, buffer: Buffer) -> None:
    assert presets.buffer(text) == buffer


@pytest.mark.parametrize(
    "text",
    [
        *("", "1", "1 BDP", "150k", "150KB", "1.5B", "2.5p", "1p", "0B", "0BDP", "-1BDP", "1e3B"),
        *("infBDP", "1B", "1500B", "3027B"),
    ],
)
def test_what_is_no_buffer(text: str) -> None:
    with pytest.raises(ValueError, match=r"buffer|whole number"):
        presets.buffer(text)


def test_the_values_in_force_are_given_else_the_presets_else_the_defaults() -> None:
    preset = Preset({"rate": "20M", "return_rate": "2M", "loss": "0.5", "buffer": "100p"})
    assert presets.in_force({}, preset) == presets.DEFAULTS | {
        "rate": "20M",
        "return_rate": "2M",
        "loss": "0.5",
        "buffer": "100p",
    }
    given = {
        "rate": "5M",
        "return_rate": "same",
        "loss": "preset",
        "return_loss": "1",
        "buffer_bdp": "2",
        "buffer": "preset",
    }
    found = presets.in_force(given, preset)
    assert [found[name] for name in ("rate", "return_rate", "loss", "return_loss", "buffer")] == [
        "5M",
        "same",
        "0.5",
        "1",
        "2BDP",
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"buffer": "1BDP", "buffer_bdp": "1"},
        {"buffer": "1BDP", "buffer_bytes": "9000"},
        {"buffer_bdp": "1", "buffer_bytes": "9000"},
    ],
)
def test_two_buffers_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"{' and '.join(given)}: give one of them"):
        presets.in_force(given, Preset())


def test_a_delay_goes_before_a_constellation() -> None:
    leo = presets.find("leo")
    assert presets.in_force({}, leo)["delay_ms"] == "none"
    assert presets.in_force({"delay_ms": "40"}, leo)["delay_ms"] == "40"


def test_a_link_file_has_rate_and_delay_of_its_own() -> None:
    for values, preset in (
        ({"link_file": "a.csv", "rate": "none"}, Preset()),
        ({}, Preset(link_file=Path("a.csv"))),
    ):
        found = presets.in_force(values, preset)
        assert [found[name] for name in ("rate", "return_rate", "delay_ms", "loss")] == [
            "none",
            "none",
            "none",
            "0",
        ]


def test_a_file_of_rates_has_the_delay_of_the_scenario(tmp_path: Path) -> None:
    file = str(made(tmp_path, "time_s,rate_bps\n0,1e6\n", "rates.csv"))
    found = presets.in_force({"link_file": file, "delay_ms": "30"}, Preset())
    assert (found["rate"], found["return_rate"], found["delay_ms"]) == ("none", "none", "30")
    assert presets.in_force({"link_file": file}, presets.find("geo"))["delay_ms"] == "250"
    for orbit in ("leo", "starlink", "geo_rcs2", "geo_dvbs2"):
        with pytest.raises(ValueError, match=r"has rates only: they go with one delay_ms"):
            presets.in_force({"link_file": file}, presets.find(orbit))
    with pytest.raises(ValueError, match=r"^rate=1M: link_file=.* has the rate over time"):
        presets.in_force({"link_file": file, "rate": "1M"}, Preset())


@pytest.mark.parametrize(
    ("text", "said"),
    {
        "delay: 250": "line 1: unknown: delay; did you mean delay_ms (in ms)? known are rate, return_rate, delay_ms",
        "rate: 10M\n\ndelay_ms: fast": "line 3: delay_ms: 'fast' is not a delay from 0.001 to 10000 ms",
        "rate: 10": "line 1: rate: '10' is not a rate from 32k to 1G bit/s",
        "loss: 101": "line 1: loss: '101' is not a percentage from 0 to 100",
        "queue: red": "line 1: queue: 'red' is none of fifo, codel, fq_codel, cake, netem, netem_gro",
        "buffer: 150k": "line 1: buffer: '150k' is not a buffer like 1BDP, 150kB",
        "delay_ms: 5\ndelay_ms: 6": "line 2: delay_ms is given twice",
        "delay_ms: 5\naltitude_km: 550": "delay_ms is for a link without a constellation, altitude_km for one over it",
        "altitude_km: 10": "altitude_km is 10.0: it must be from 160 to 24000",
        "altitude_km: high": "line 1: could not convert string to float: 'high'",
        "- a list": "line 1: '- a list' is not a line like delay_ms: 250",
    }.items(),
)
def test_what_is_wrong_with_a_preset(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(presets.PresetError) as error:
        presets.read(made(tmp_path, text))
    assert str(error.value).startswith(f"{tmp_path}/mine.yml") and said in str(error.value)


def test_a_satellite_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    made(tmp_path, "time_s,rate_bps,delay_ms\n0,1e6,30\n", "trace.csv")
    assert presets.find("trace", tmp_path).link_file == tmp_path / "trace.csv"
    with pytest.raises(presets.PresetError, match=r"no satellite 'mine' in .*; there are trace"):
        presets.find("mine", tmp_path)


VALUES = {
    "rate": st.integers(32_000, 10**9).map(str),
    "delay_ms": st.floats(0.001, 10_000).map(repr),
    "loss": st.floats(0, 100).map(repr),
    "buffer": st.builds(
        "{}{}".format, st.integers(4, 1000), st.sampled_from(["BDP", "kB", "000B", "p"])
    ),
    "queue": st.sampled_from(presets.CHOICES["queue"]),
}


@given(
    st.fixed_dictionaries({}, optional=VALUES), st.text(string.ascii_letters + " #:'", max_size=20)
)
def test_any_preset_is_read_as_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, str], text: str
) -> None:
    lines = [f"{name}: {value}  # {text}" for name, value in values.items()]
    file = made(tmp_path_factory.mktemp("satellites"), "\n".join(["---", f"# {text}", *lines, ""]))
    preset = presets.read(file)
    assert preset == Preset(values)
    assert preset._replace(values={}) == Preset()


@given(st.text(max_size=60))
def test_any_text_is_a_preset_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    file = tmp_path_factory.mktemp("satellites") / "any.yml"
    file.write_text(text, encoding="utf-8", newline="")
    try:
        presets.read(file)
    except presets.PresetError as error:
        assert str(file) in str(error)
