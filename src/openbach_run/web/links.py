# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files that were uploaded on the page, in results/serve.links/NAME.csv.

A launch names them like the command line does, by path.
"""

from __future__ import annotations

import re
from pathlib import Path

from openbach_jobs.link_file import near
from openbach_run.campaign import noise
from openbach_run.campaign.model import Sweep
from openbach_run.campaign.reading import NO_FILE
from openbach_run.errors import InputError
from openbach_run.link_checks import read_file_of, read_uploaded

FOLDER = "serve.links"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}\.csv")


def all_links(results: Path) -> list[str]:
    """Return the paths of all uploaded link files, sorted."""
    return sorted(str(file) for file in (results / FOLDER).glob("*.csv"))


def keep(results: Path, name: str, content: bytes) -> str:
    """Store an uploaded link file without a mistake, and return its path. Raises InputError."""
    if not NAME.fullmatch(name):
        raise InputError(
            f"{name[:100]!r}: a link file is called like leo.csv: letters, digits, _ . - and .csv"
        )
    folder = results / FOLDER
    folder.mkdir(exist_ok=True)
    new, place = folder / f".{name}.new", folder / name
    try:
        new.write_bytes(content)
        # It is checked under another name: a link file that is there is whole.
        read_uploaded(new)
        if place.exists() and place.read_bytes() != content:
            raise InputError(f"{name}: another file has this name: give yours a new one")
        new.replace(place)
    except InputError as error:
        raise InputError(str(error).replace(str(new), name)) from None
    finally:
        new.unlink(missing_ok=True)
    return str(place)


def find(results: Path, name: str) -> Path | None:
    """Return an uploaded file by its name, or None."""
    file = results / FOLDER / name
    return file if NAME.fullmatch(name) and file.is_file() else None


def arguments_with_links(campaign: Sweep) -> list[str]:
    """Return the arguments and constants whose values are link files."""
    scenarios = (campaign.scenario, *campaign.sub_scenarios.values())
    with_links: list[str] = []
    for scenario in scenarios:
        names = scenario.sweep.get("link_files")
        if isinstance(names, list):
            with_links += [name for name in names if name in campaign.values]
    return with_links


def contents(results: Path, campaign: Sweep) -> dict[str, dict[str, str]]:
    """Return the contents of the link files that a campaign names, by argument and path.

    Raises InputError for a file that was not uploaded, of noise, too: the page does not read other
    files of the serving machine.
    """
    for value in campaign.values.get(noise.NOISE, ()):
        noise.distributions(value, None)
    known, texts = all_links(results), {}
    for name in arguments_with_links(campaign):
        files = [value for value in campaign.values[name] if value != NO_FILE]
        for file in files:
            if file not in known:
                known_names = f"there are {', '.join(known)}" if known else "none was uploaded yet"
                raise InputError(
                    f"{name}={file}: {near(file, known)}a link file is uploaded on this page first"
                    f" ({known_names}); with a file of the machine that serves, run ./openbach-run"
                    f" {campaign.scenario.name} {name}=FILE there"
                )
        texts[name] = {file: read_file_of(name, Path(file)) for file in files}
    return texts
