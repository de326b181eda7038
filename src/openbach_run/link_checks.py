# SPDX-License-Identifier: GPL-3.0-or-later
"""A check of the satellites and link files that arguments name, before any run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path

from openbach_jobs import dvbs2, link_file, presets
from openbach_jobs.presets import DAMA, DVBS2, ES_N0_FILE, NONE, PRESET, Preset
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.json_files import read_json, read_text
from openbach_run.own_page import read_page
from openbach_run.results.seeds import RANDOM
from openbach_run.topology.hosts import Inventory
from openbach_run.units import number


def read_link_file(path: Path) -> str:
    """Return the text of a link file without a mistake.

    Raises InputError with the line of the first one.
    """
    try:
        link_file.check(path)
    except link_file.LinkFileError as error:
        raise InputError(str(error)) from error
    except ValueError as error:  # a name that no file can have
        raise InputError(f"{str(path)!r}: {error}") from error
    return path.read_text(encoding="utf-8-sig")


def read_es_n0_file(path: Path) -> str:
    """Return the text of a file of Es/N0 without a mistake.

    Raises InputError with the line of the first one.
    """
    try:
        dvbs2.read_series(path)
    except ValueError as error:
        raise InputError(str(error)) from error
    return path.read_text(encoding="utf-8-sig")


def is_es_n0_file(path: Path) -> bool:
    """Return whether the heading of a file is that of Es/N0 over time; no if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            heading = next((line for line in file if line.strip() and not line.startswith("#")), "")
    except (OSError, ValueError):
        return False
    return "es_n0_db" in heading


def read_uploaded(path: Path) -> str:
    """Return the text of a link file or a file of Es/N0 without a mistake. Raises InputError.

    The page knows files by their names, so one without delays could not be told from others.
    """
    if not is_es_n0_file(path) and not link_file.has_delay(path):
        raise InputError(f"{path.name}: has no column delay_ms; on the page a link file needs it")
    return read_es_n0_file(path) if is_es_n0_file(path) else read_link_file(path)


ANY_TEXT = "file_"
"""Beginning of the name of a constant whose file is for commands, and may have any text."""
MOST_BYTES = 1 << 20
PAGE = "page"
"""The constant whose file or folder is a web page."""


def read_file_of(argument: str, path: Path) -> str:
    """Return the text of the file that is a value of this argument. Raises InputError."""
    if argument.startswith(ANY_TEXT):
        if not path.is_file() or path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: no file, or one of more than {MOST_BYTES} bytes")
        return read_text(path)
    if argument == PAGE:
        return read_page(path)
    return read_es_n0_file(path) if argument == ES_N0_FILE else read_link_file(path)


LINK_FILE, LINK_START = "link_file", "link_start"
ORBIT = "orbit"
"""The argument that names a satellite."""
SHARES = "shares"
"""The argument with the shares of terminals, which the inventory has."""
MODULES = "modules"
"""Kind of a run's entries that are modules of kernel/modules."""
Presets = Mapping[str, Preset]
"""Satellite's name → its preset."""


def read_presets(names: Iterable[str], files: Mapping[str, Path]) -> dict[str, Preset]:
    """Return the presets of those names that have a file.

    Raises InputError with the line of the first mistake.
    """
    return {name: read_preset(files[name]) for name in names if name in files}


def read_preset(file: Path) -> Preset:
    """Return the preset of a file. Raises InputError with the line of the first mistake."""
    try:
        preset = presets.read(file)
        if preset.link_file:
            link_file.check(preset.link_file)
        return preset
    except (presets.PresetError, link_file.LinkFileError) as error:
        raise InputError(str(error)) from error


def in_force(cell: Mapping[str, str], of_orbits: Presets) -> dict[str, str]:
    """Return a cell with the values in force on its link in place of `preset`.

    They are those of its satellite, or else the defaults. Of the two ways to name a buffer one is
    `none`. Raises InputError.
    """
    preset = of_orbits.get(cell.get(ORBIT, ""))
    try:
        texts = presets.in_force(cell, preset or Preset()) if preset or LINK_FILE in cell else {}
        presets.value("buffer", texts.get("buffer", presets.DEFAULTS["buffer"]))
    except ValueError as error:
        raise InputError(str(error)) from error
    if preset is None or PRESET not in cell.values():
        return dict(cell)
    # A preset's buffer may be `2BDP`; a scenario with buffer_bdp has an argument of its own for
    # that.
    if "buffer_bdp" in cell:
        bdp = texts["buffer"].removesuffix("BDP")
        # The link takes one of the two; the other is `none`, so that no buffer is given twice.
        in_bdp = cell.get("buffer", PRESET) in (PRESET, NONE) and bdp != texts["buffer"]
        texts |= {"buffer": NONE, "buffer_bdp": bdp} if in_bdp else {"buffer_bdp": NONE}
    return {name: texts.get(name, value) for name, value in cell.items()}


def check_terminals(
    cell: Mapping[str, str], of_orbits: Presets, es_n0_text: str | None, inventory: Inventory
) -> None:
    """Check that an inventory has the terminals of a forward link in frames.

    Raises InputError for values, or a file's rows, of more terminals than there are.
    """
    preset, terminals = of_orbits.get(cell.get(ORBIT, "")), terminals_of(inventory)
    if preset is None or cell.get("forward") != DVBS2 or not terminals:
        return
    own = dvbs2.split(cell.get("forward_values", NONE))
    texts = dvbs2.in_force(own, preset.forward)
    rows = dvbs2.rows_of(cell[ES_N0_FILE], es_n0_text.splitlines()) if es_n0_text else []
    try:
        dvbs2.read(texts, None).check_terminals(terminals, rows, own)
    except ValueError as error:
        raise InputError(str(error)) from error


def terminals_of(inventory: Inventory) -> int:
    """Return the largest number of gateways beyond an interface of a satellite; 0 if unknown."""
    counts = [0]
    for host in inventory.hosts:
        vias = {route.via for route in host.routes if route.table is None}
        if host.role == "sat":
            for _, others in inventory.neighbours(host):
                counts.append(len(vias & {other.address for other in others}))
    return max(counts)


def modules_of(names: Iterable[str], files: Mapping[str, Path]) -> dict[str, list[str]]:
    """Return the kernel modules that these satellites need, as what a run uses.

    Raises InputError with the line of the first mistake of a file.
    """
    modules = list(dict.fromkeys(chain(*(kernel_modules(files[name]) for name in names))))
    return {MODULES: modules} if modules else {}


def kernel_modules(file: Path) -> list[str]:
    """Return the kernel modules that the satellite of a file needs.

    Raises InputError with the line of the first mistake of the file.
    """
    values = read_preset(file).values
    needed = {DAMA: values.get("access") == DAMA, DVBS2: values.get("forward") == DVBS2}
    return [module for module, is_needed in needed.items() if is_needed]


def remarks(cell: Mapping[str, str], of_orbits: Presets) -> list[str]:
    """Return notes on a cell's link: where it begins in its file, and what a value replaces."""
    orbit = cell.get(ORBIT, "")
    preset = of_orbits.get(orbit, Preset())
    file, start = _begin(cell, preset)
    notes = []
    if file == NONE and start != link_file.AUTO:
        notes.append(f"{LINK_START}={start} has no effect: the link has no file")
    elif file != NONE and (summary := _summary_of(file)) and summary.begins_by_seed(start):
        notes.append(
            f"{file}: each seed begins at another time of its {summary.duration_s:g} s"
            f" ({LINK_START}=0: at its begin)"
        )
    return notes + _replaced(cell, orbit, preset)


def check_start(cell: Mapping[str, str], of_orbits: Presets) -> None:
    """Check that a cell's link begins before the end of its file. Raises InputError."""
    file, start = _begin(cell, of_orbits.get(cell.get(ORBIT, ""), Preset()))
    start_s, summary = number(start), None if file == NONE else _summary_of(file)
    if start_s and summary and start_s >= summary.duration_s:
        lasts = f"{file} lasts {summary.duration_s:g} s"
        raise InputError(f"{LINK_START}={start}: {lasts}; a link begins before its file's end")


def _begin(cell: Mapping[str, str], preset: Preset) -> tuple[str, str]:
    """Return the file of a cell's link, or `none`, and where in it the link begins."""
    file = cell.get(LINK_FILE, NONE)
    file = str(preset.link_file) if file == NONE and preset.link_file else file
    return file, cell.get(LINK_START, link_file.AUTO)


def _replaced(cell: Mapping[str, str], orbit: str, preset: Preset) -> list[str]:
    """Return a note if a value replaces the constellation of its satellite; else an empty list."""
    names = [name for name in (LINK_FILE, "delay_ms") if cell.get(name, NONE) != NONE]
    if not names or not (preset.constellation or preset.reconfigurations):
        return []
    text = f"{names[0]}={cell[names[0]]}"
    if preset.reconfigurations and names[0] == "delay_ms":
        if not preset.constellation:
            return []
        return [
            f"{text} takes the place of the constellation of {ORBIT}={orbit} and its delays; its"
            " reconfigurations stay, with their losses, steps and spread of the delay"
        ]
    return [
        f"{text} takes the place of the constellation of {ORBIT}={orbit}, with its delays,"
        " handovers and outages"
    ]


def note_on_shares(cell: Mapping[str, str], of_orbits: Presets, shares: str) -> str:
    """Return a note on the shares that terminals have by an inventory; "" if they have none.

    Raises InputError for shares that do not go together with the cell's values.
    """
    preset = of_orbits.get(cell.get(ORBIT, ""))
    if shares == NONE or preset is None:
        return ""
    try:
        access = presets.in_force({**cell, SHARES: shares}, preset)["access"]
    except ValueError as error:
        raise InputError(str(error)) from error
    if access != DAMA:
        return f"with access={access} the inventory's shares of terminals have no effect"
    own = [share.replace(":", " ") for share in shares.split("/") if not share.endswith(":")]
    return f"terminals with a share of their own: {', '.join(own)}"


def has_random_link(
    cell: Mapping[str, str],
    of_satellites: Presets | None = None,
    impairments: Mapping[str, Path] | None = None,
) -> bool:
    """Return whether packets are lost or delayed at random on a link of the cell.

    Its values may say so, or a file that they name; a file that cannot be read counts as random.
    `same` is the value of another argument, which counts by itself.
    """
    if any(number(cell.get(name, "")) for name in RANDOM) or cell.get("access") == DAMA:
        return True
    profiles = Catalog().all("impairments") if impairments is None else impairments
    file = cell.get(LINK_FILE, NONE)
    if file != NONE and _follows_from_the_seed(file, cell):
        return True
    if cell.get("impairment", NONE) != NONE and _is_random_profile(
        profiles.get(cell["impairment"])
    ):
        return True
    known = of_satellites or {}
    # A satellite of a file that nobody has read: only its file could say that nothing is random.
    if ORBIT in cell and cell[ORBIT] not in known and cell.get("rate") == NONE and file == NONE:
        return True
    return any(
        _is_random_satellite(known[value], name, cell)
        for name, value in cell.items()
        if value in known
    )


def _is_random_satellite(preset: Preset, name: str, cell: Mapping[str, str]) -> bool:
    """Return whether a satellite's preset loses or delays packets at random in this cell.

    A run over a return link on demand begins at a phase of the cycle of requests by its seed.
    """
    if preset.link_file:
        return _follows_from_the_seed(str(preset.link_file), cell)
    of_preset = cell.get("access", PRESET) == PRESET and name == ORBIT
    if of_preset and preset.values.get("access") == DAMA:
        return True
    grid = preset.reconfigurations
    if grid and grid.is_random and cell.get(LINK_FILE, NONE) == NONE:
        return True
    left_to_it = name != ORBIT and PRESET in cell.values()
    return left_to_it and any(number(preset.values.get(key, "")) for key in RANDOM)


def _follows_from_the_seed(file: str, cell: Mapping[str, str]) -> bool:
    """Return whether a link file loses at random or begins by the seed; True if unreadable."""
    summary = _summary_of(file)
    start = cell.get(LINK_START, link_file.AUTO)
    return summary is None or summary.is_random or summary.begins_by_seed(start)


def _summary_of(file: str) -> link_file.Summary | None:
    """Return what is in a link file; None if it cannot be read."""
    try:
        # The check of the file itself refuses it, in words.
        return _checked(file, Path(file).stat().st_mtime_ns)
    except (OSError, ValueError):
        return None


@lru_cache
def _checked(file: str, changed_ns: int) -> link_file.Summary:
    """Return what is in a link file.

    It is cached: the cells of a campaign have the same files. `changed_ns` is only a key of the
    cache.
    """
    return link_file.check(file)


def _is_random_profile(file: Path | None) -> bool:
    """Return whether an impairment profile is random; True if there is no such profile."""
    if file is None:
        return True
    profile = read_json(file)
    parts = ("jitter_ms", "loss_pct", "reorder_pct", "duplicate_pct")
    return not isinstance(profile, dict) or any(profile.get(part) for part in parts)
