# SPDX-License-Identifier: GPL-3.0-or-later
"""Low-orbit links as they were measured: the fit of the model, and the comparison of two links."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.known_link import DELAY_MS, KNOWN, RATES, model, played

from openbach_jobs import presets, reconfigurations
from openbach_run.errors import InputError
from satlink import command as link
from satlink import compare, fit, pings
from satlink.formats import table
from satlink.imported import Part
from satlink.measured import Measured, Options, Probes, Series

RETURN_LOSS_PCT, RATE_SD_PCT = 0.2, 20.0
TRIALS, DURATION_S, PERIOD_S = 200, 210.0, 0.02


def test_a_ping_waits_is_lost_and_never_overtakes() -> None:
    """One way 60 ms: those that are on their way at the begin of the loss are lost, too."""
    grid = model(grid_phase_s=1, lossy_pct=100, lossy_ms=100, held_ms=50)
    states = pings.states(iter(played(grid, 10)), 10)
    times_s = np.array([0.5, 0.93, 0.95, 1.05, 1.11, 1.14, 1.2])
    probes = pings.sent(states, times_s, 1)
    assert probes.lost.tolist() == [0, 0, 2, 3, 0, 0, 0]
    answered = probes.rtts_ms[probes.lost == 0]
    assert answered.tolist() == pytest.approx([120, 120, 160, 130, 120])


def trial(seed: int) -> fit.Fitted:
    """The fit of pings over the known model."""
    changes = reconfigurations.changes(model(**KNOWN), seed, RATES, DELAY_MS)
    states = pings.states(changes, DURATION_S + 5)
    times_s = np.arange(0, DURATION_S, PERIOD_S)
    probes = pings.sent(states, times_s, seed, {"return": RETURN_LOSS_PCT})
    # As ping knows it: lost, in an unknown direction.
    probes = replace(probes, lost=np.minimum(probes.lost, 1))
    return fit.fit([Part("pings", "both", Measured(probes, (), probes.end_s))])


@pytest.mark.parametrize("trials", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_fit_finds_the_known_values_within_its_intervals(trials: int) -> None:
    """In 95 % of the trials for each value; an interval is one of 99 %."""
    known = {**KNOWN, "delay_ms": DELAY_MS, "return_loss": RETURN_LOSS_PCT}
    missed = dict.fromkeys(known, 0)
    for seed in range(trials):
        values = trial(seed).values
        for name, value in known.items():
            one = values[name]
            missed[name] += not one.low - 1e-9 <= value <= one.high + 1e-9
            assert one.low <= one.value <= one.high
    assert max(missed.values()) <= 0.05 * trials, missed


def test_a_fit_finds_known_rates_within_its_intervals() -> None:
    """Rates alone: the grid is assumed, its phase found."""
    missed = dict.fromkeys(("rate", "rate_sd_pct", "grid_phase_s"), 0)
    known = {"rate": 50e6, "rate_sd_pct": RATE_SD_PCT, "grid_phase_s": 4.2}
    grid = model(grid_phase_s=4.2, rate_sd_pct=RATE_SD_PCT)
    for seed in range(TRIALS):
        changes = reconfigurations.changes(grid, seed, RATES, DELAY_MS)
        forward = pings.states(changes, 300)["forward"]
        random = np.random.default_rng(seed)
        times_s = np.arange(0, 300, 0.1)
        noise = 1 + 0.05 * random.standard_normal(len(times_s))
        rates = forward.rates_bps[forward.at(times_s)] * noise
        series = Series("rate_bps", "forward", times_s, rates)
        values = fit.fit([Part("rates", "both", Measured(None, (series,), 300.0))]).values
        for name, value in known.items():
            one = values[name]
            missed[name] += not one.low <= value <= one.high
    assert max(missed.values()) <= 0.05 * TRIALS, missed


def test_a_fit_tells_the_directions_of_a_loss_if_they_are_known() -> None:
    states = pings.states(reconfigurations.changes(model(**KNOWN), 1, RATES, DELAY_MS), 305)
    loss_pct = {"return": 2.0, "forward": 0.5}
    probes = pings.sent(states, np.arange(0, 300, PERIOD_S), 1, loss_pct)
    values = fit.fit([Part("irtt", "both", Measured(probes, (), probes.end_s))]).values
    assert values["return_loss"].low < 2.0 < values["return_loss"].high
    assert values["loss"].low < 0.5 < values["loss"].high


@pytest.mark.parametrize("grid_s", [7.0, 12.5, 15.0, 30.0])
def test_a_fit_finds_the_period_of_the_grid(grid_s: float) -> None:
    grid = model(**{**KNOWN, "grid_s": grid_s})
    states = pings.states(reconfigurations.changes(grid, 1, RATES, DELAY_MS), 305)
    probes = pings.sent(states, np.arange(0, 300, PERIOD_S), 1)
    found = fit.fit([Part("pings", "both", Measured(probes, (), probes.end_s))]).values["grid_s"]
    assert found.low <= grid_s <= found.high and found.value == pytest.approx(grid_s, abs=0.05)


def test_a_link_without_a_grid_is_told() -> None:
    probes = Probes(np.arange(0, 60, 0.1), np.full(600, 40.0), np.zeros(600, dtype=np.int8))
    found = fit.fit([Part("pings", "both", Measured(probes, (), 60.0))])
    assert "0 events are too few" in " ".join(found.remarks)
    assert found.values["delay_ms"].value == 20 and found.values["delay_step_ms"].value == 0
    with pytest.raises(ValueError, match="neither a delay nor a rate"):
        fit.fit([Part("nothing", "both", Measured(None, (), 60.0))])


def ping_file(folder: Path, duration_s: float = 150.0) -> Path:
    """What `ping -D -i 0.02` writes over the known model."""
    changes = reconfigurations.changes(model(**KNOWN), 1, RATES, DELAY_MS)
    states = pings.states(changes, duration_s + pings.TAIL_S)
    probes = pings.sent(states, np.arange(0, duration_s, PERIOD_S), 1)
    lines = []
    for number, (time_s, rtt_ms, lost) in enumerate(probes.rows(), 1):
        if not lost:
            lines.append(
                f"[{1700000000 + time_s + rtt_ms / 1000:.6f}] 64 bytes from 192.0.2.1:"
                f" icmp_seq={number} ttl=55 time={rtt_ms:.1f} ms\n"
            )
    path = folder / "ping.txt"
    path.write_text("".join(lines))
    return path


def test_a_fitted_file_is_a_satellite_that_compares_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, satellite = ping_file(tmp_path, 300.0), tmp_path / "mine.yml"
    assert link.main(["fit", str(path), "-o", str(satellite)]) == 0
    preset = presets.read(satellite)
    assert preset.reconfigurations is not None
    assert preset.reconfigurations.grid_s == 15
    assert "reconfigurations at seconds 9.20, 24.20" in capsys.readouterr().out.replace(
        "9.19", "9.20"
    ).replace("24.19", "24.20")
    figure = tmp_path / "both.svg"
    assert link.main(["compare", str(path), str(satellite), "-o", str(figure)]) == 0
    said = capsys.readouterr().out
    assert "burst of loss, 50 %" in said and figure.stat().st_size > 5000
    one = compare.measured_side("a", [Part("a", "both", table.read(path, Options()))])
    other = compare.satellite_side("b", preset, one, 1)
    rows = {row.name: row.off_pct for row in compare.table(one, other)}
    for quantile in (25, 50, 75, 95):
        assert abs(rows[f"RTT within intervals, {quantile} %"]) < 10
    assert abs(rows["burst of loss, 50 %"]) < 20


@pytest.mark.parametrize(
    "draws", [compare.LEAST_DRAWS, pytest.param(compare.DRAWS, marks=pytest.mark.nightly)]
)
def test_a_short_trace_is_told_from_another_satellite_but_not_from_its_own(
    draws: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "DRAWS", draws)
    satellite = tmp_path / "mine.yml"
    assert link.main(["fit", str(ping_file(tmp_path, 1200.0)), "-o", str(satellite)]) == 0
    path = ping_file(tmp_path, 150.0)
    preset = presets.read(satellite)
    assert preset.reconfigurations is not None
    one = compare.measured_side("a", [Part("a", "both", table.read(path, Options()))])

    def beyond(preset: presets.Preset) -> list[str]:
        other = compare.satellite_side("b", preset, one, 1)
        chance = compare.by_chance("b", preset, one, 1, lambda text, share: None)
        rows = [row for row in compare.table(one, other, chance) if row.chance]
        assert len(rows) > 15
        return [row.name for row in rows if not row.is_chance]

    # One in ten lies outside by chance, and those of one kind together.
    assert len(beyond(preset)) <= 6
    grid = preset.reconfigurations
    longer = type(grid)(**(vars(grid) | {"lossy_ms": 2 * grid.lossy_ms}))
    assert "burst of loss, 50 %" in beyond(preset._replace(reconfigurations=longer))

    capsys.readouterr()
    assert link.main(["compare", str(path), str(satellite)]) == 0
    assert "by chance" in capsys.readouterr().out.splitlines()[0]
    assert link.main(["compare", str(satellite), str(path)]) == 0
    assert "by chance" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "ping.txt", "-o", "x.csv"], "ends in .yml"),
        (["fit", "-o", "x.yml"], "no file is given"),
        (["fit", "ping.txt", "--grid-s", "0", "-o", "x.yml"], "--grid-s 0"),
        (["fit", "ping.txt", "--from-s", "1000", "-o", "x.yml"], "it ends at"),
        (["fit", "ping.txt", "--from-s", "9", "--to-s", "8", "-o", "x.yml"], "is not after"),
        (["fit", "ping.txt", "--to-s", "9", "-o", "x.yml"], "measure for a longer time"),
        (["compare", "geo", "leo"], "geo does not change with time"),
        (["compare", "leo", "starlink", "--from-s", "3"], "neither of the two is a measurement"),
        (["compare", "leo", "absent"], "absent"),
        (["compare", "leo", "starlink", "-o", "x.gif"], "a figure ends in"),
    ],
)
def test_what_is_wrong_is_told(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ping_file(tmp_path, 60.0)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        link.main(words)
    assert [one.name for one in tmp_path.iterdir()] == ["ping.txt"]


def test_the_old_leo_and_a_link_file_of_it_are_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "leo.csv"
    assert link.main(["leo", "--duration-s", "900", "-o", str(out)]) == 0
    capsys.readouterr()
    assert link.main(["compare", "leo_hold", str(out)]) == 0
    line = next(one for one in capsys.readouterr().out.splitlines() if "intervals, 50 %" in one)
    assert line.endswith("0.0 %")
