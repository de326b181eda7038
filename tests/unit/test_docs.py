# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands and the facts that the documentation names are those of the code."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import words
from helpers import own_files

import openbach_run
from openbach_run import api
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import campaigns_of, path_of
from openbach_run.campaign.run import Callbacks
from openbach_run.campaign.table import Result
from openbach_run.catalog import Catalog
from openbach_run.commands.main import COMMANDS, parser
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import load_packages

ROOT = Path(__file__).resolve().parents[2]
# Without CHANGELOG.md and CONTRIBUTING.md.
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("[!C]*.md"))]
PACKAGES = load_packages([ROOT / "jobs"])
LINES = sorted({(page, line) for page in PAGES for line in own_files.commands(page)})


@pytest.mark.parametrize(("page", "line"), LINES, ids=[line for _, line in LINES])
def test_commands_are_understood(
    page: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the checkout, which has the files that the page tells its reader to write as well."""
    own_files.write(page, tmp_path)
    for entry in ROOT.iterdir():
        (tmp_path / entry.name).symlink_to(entry)
    monkeypatch.chdir(tmp_path)
    words = [
        word for word in shlex.split(line)[1:] if not word.startswith(("link_file=", "vpn.config="))
    ]  # made by the line before
    if words[0] in COMMANDS:
        import_module(COMMANDS[words[0]]).parser().parse_args(words[1:])
    elif "--help" not in words:
        arguments = parser().parse_intermixed_args(words)
        catalog = Catalog.beside_ours(arguments.with_dirs)
        packages = load_packages(catalog.jobs, catalog) if arguments.with_dirs else PACKAGES
        if not arguments.check:
            path = path_of(arguments.scenario, catalog)
            given = (arguments.settings, arguments.seeds)
            assert campaigns_of(path, *given, packages, catalog)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_lead_to_headings() -> None:
    """GitHub's names of headings: small letters, hyphens for spaces, no other signs."""
    for page in PAGES:
        for name, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            aim = page.parent / name if name else page
            titles = re.findall(r"^#+ (.+)$", aim.read_text(), re.M)
            named = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in named, f"{page.name}: {name}#{anchor}"


def test_every_page_is_in_the_index_and_the_site_has_it_in_the_same_order() -> None:
    index = ROOT / "docs/README.md"
    listed = re.findall(r"^- \[(.+?)\]\((.+?)\)", index.read_text(), re.M)
    paths = [os.path.normpath(f"docs/{path}") for _, path in listed]
    shown = re.findall(r"^      - (.+): (\S+)$", (ROOT / "docs/mkdocs.yml").read_text(), re.M)
    assert [(title, path) for (title, _), path in zip(listed, paths, strict=True)] == shown
    pages = {str(page.relative_to(ROOT)) for page in PAGES if page not in (PAGES[0], index)}
    assert pages <= set(paths)


def test_the_first_screen_is_short() -> None:
    """Without the table and code."""
    above = words.prose((ROOT / "README.md").read_text()).partition("## Where to go next")[0]
    assert len(above.split()) <= 450


def test_no_line_of_text_is_longer_than_120_columns() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        long = [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")]
        assert not long, f"{page.relative_to(ROOT)}: {long}"


def test_every_argument_and_constant_of_the_scenarios_is_explained() -> None:
    page = (ROOT / "docs/arguments.md").read_text()
    for file in (ROOT / "scenarios").glob("*.yml"):
        scenario = expand(file)
        for name in (*scenario["arguments"], *scenario.get("x-constants", ())):
            assert f"| `{name}` |" in page


@pytest.mark.parametrize("kind", [Options, Callbacks, Result])
def test_the_python_page_has_every_field_of_the_public_classes(kind: type) -> None:
    page = (ROOT / "docs/python.md").read_text()
    names = {one.name for one in fields(kind)}
    names |= {name for name, value in vars(kind).items() if isinstance(value, property)}
    inner = {"in_real_time", "chosen", "path_words"}  # what records and commands say of options
    assert not [name for name in names - inner if f"`{name}`" not in page]


def test_the_package_gives_what_its_python_interface_has() -> None:
    assert set(api.__all__) == openbach_run.PUBLIC


def test_changes_of_the_newest_version_are_in_four_groups() -> None:
    text = (ROOT / "docs/CHANGELOG.md").read_text()
    title, _, rest = text.partition("\n## ")[2].partition("\n")
    assert re.fullmatch(r"\d+\.\d+\.\d+ \((not yet released|\d{4}-\d\d-\d\d)\)", title), title
    section = rest.partition("\n## ")[0].strip()
    groups = re.findall("^### (.+)$", section, re.MULTILINE)
    order = ["Packets change", "Added", "Changed", "Fixed"]
    assert groups == [group for group in order if group in groups]
    first = section.splitlines()[0]
    assert first == f"### {groups[0]}", f"in a group, please: {first}"
