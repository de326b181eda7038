# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders of src/openbach_run follow the way of the data.

A room imports only from rooms above it, in no circle, and the guest has exactly the modules that
its own imports lead to.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from helpers.job_paths import job_paths
from helpers.rooms import MODULES, ROOMS, SOURCE, changes_sys_path, imported, room

from openbach_run.catalog import KINDS
from openbach_run.commands.main import COMMANDS
from openbach_run.engine.local import GUEST_MODULES
from openbach_run.openbach.job_content import SHARED, imported_of_jobs
from openbach_run.paths import CONTENT, LIBRARY, REPOSITORY


@pytest.mark.parametrize(
    "module", [name for name in MODULES if name.count(".") and not name.endswith("__main__")]
)
def test_no_import_upwards(module: str) -> None:
    assert room(module) in ROOMS, "a new room needs its place in ROOMS"
    upwards = [
        one
        for one in imported(module)
        if one.count(".") and ROOMS.index(room(one)) > ROOMS.index(room(module))
    ]
    assert not upwards


def test_no_circle() -> None:
    list(
        TopologicalSorter(
            {module: set(imported(module)) - {module} for module in MODULES}
        ).static_order()
    )


def imported_names(program: str, at_its_top: bool = False) -> list[str]:
    """Return the full names that a program imports; or only those outside of its functions."""
    tree, names = ast.parse(program), []
    if at_its_top:
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tree.body = [node for node in tree.body if not isinstance(node, functions)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def test_imports_at_the_top_and_later_are_told_apart() -> None:
    top = "import a\nif x:\n from b.c import d, e\nclass A:\n import f\n"
    later = "def g():\n from h import i\nasync def j():\n import k\n'import l'"
    assert imported_names(top + later, at_its_top=True) == ["a", "b.c.d", "b.c.e", "f"]
    assert {*imported_names(top + later)} == {"a", "b.c.d", "b.c.e", "f", "h.i", "k"}


TAKEN_BY_SATLINK = {"catalog", "drawing", "errors", "link_checks", "progress"}
"""The modules of the command that the link tools import: all of the lowest rooms."""


def test_the_link_tools_import_no_more_of_the_command() -> None:
    """A module that satlink leaves leaves the list."""
    names: list[str] = []
    for file in (SOURCE / "satlink").rglob("*.py"):
        names += imported_names(file.read_text())
    parts = [name.split(".") for name in names]
    assert {part[1] for part in parts if part[0] == "openbach_run"} == TAKEN_BY_SATLINK


def test_the_command_imports_link_tools_only_when_they_are_called() -> None:
    """By the name of the sub-command, and for the drawing of a link on the page."""
    users = set()
    for module, file in MODULES.items():
        text = file.read_text()
        if any(name.startswith("satlink") for name in imported_names(text)):
            users.add(module)
        assert not [one for one in imported_names(text, True) if one.startswith("satlink")], module
    assert users == {"openbach_run.web.page"}
    apart = {one for one in COMMANDS.items() if not one[1].startswith("openbach_run.commands.")}
    assert apart == {("link", "satlink.command")}


def test_the_guest_has_what_it_imports_and_no_more() -> None:
    """Packages come with their modules, as Python imports them."""
    found: set[str] = set()
    waiting = {"openbach_run.guest.main"}
    while waiting:
        module = waiting.pop()
        found.add(module)
        parents = {module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)}
        waiting |= ({*imported(module), *parents}) - found
    taken = {
        name
        for name, file in MODULES.items()
        for path in GUEST_MODULES
        if file.relative_to(SOURCE).is_relative_to(path)
    }
    # What jobs start and import, which the director does not.
    of_jobs = ("openbach_run.guest.programs", "openbach_run.guest.agent_library")
    programs = {name for name in taken if name.startswith(of_jobs)}
    assert found | {"openbach_run.guest.init"} | programs == taken
    shared = {one for name in found for one in imported_of_jobs(MODULES[name])}
    assert {f"{SHARED}/{name}.py" for name in (*shared, "__init__")} == {
        path for path in GUEST_MODULES if path.startswith(SHARED)
    }


@pytest.mark.parametrize("file", sorted((SOURCE / SHARED).glob("*.py")), ids=lambda file: file.stem)
def test_what_jobs_share_imports_nothing_of_the_command(file: Path) -> None:
    """On an agent there is Python, OpenBACH's collect_agent and the job itself."""
    allowed = sys.stdlib_module_names | {SHARED, "collect_agent"}
    for node in ast.walk(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        assert {name.split(".")[0] for name in names} <= allowed


def test_the_guest_needs_nothing_but_python() -> None:
    standard = sys.stdlib_module_names | {"openbach_run", SHARED, "collect_agent"}
    for path in GUEST_MODULES:
        place = SOURCE / path
        for file in [place] if place.is_file() else place.glob("**/*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                    names = (
                        [node.module or ""]
                        if isinstance(node, ast.ImportFrom)
                        else [one.name for one in node.names]
                    )
                    assert {name.split(".")[0] for name in names} <= standard, file


def test_a_bundle_and_a_wheel_have_every_folder_and_file_that_the_command_reads() -> None:
    assert {
        *(LIBRARY.name if (LIBRARY / kind).is_dir() else kind for kind in KINDS),
        *(f"reports/{file.name}" for file in (REPOSITORY / "reports").glob("*.yml")),
    } <= {*CONTENT}


def test_the_locks_have_every_python_package_with_hashes() -> None:
    """A bundle has those of requirements.lock, the launcher installs those of all."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"].pop("kernel") == ["openbach-run-kernel"], "only ours"
    locked: set[str] = set()
    for extra, needed in {"": project["dependencies"], **project["optional-dependencies"]}.items():
        lock = (REPOSITORY / f"tools/locks/requirements{extra and '-'}{extra}.lock").read_text()
        own_hash, _, lines = lock.partition("\n")
        assert own_hash == f"# {hashlib.sha256(lines.encode()).hexdigest()[:16]}", "run tools/lock"
        names = re.findall(r"^([\w.-]+)==.* --hash=sha256:[0-9a-f]{64}$", lines, re.MULTILINE)
        assert len(names) == lines.count("\n")
        locked |= {*names}  # those of an extra come on top of requirements.lock
        assert {re.match(r"[\w.-]+", one)[0].lower() for one in needed} <= locked  # type: ignore[index]


def test_yaml_is_read_in_one_place() -> None:
    """Where its aliases are counted."""
    loads = re.compile(r"\byaml\.(?:\w*load\w*|\w*Loader|compose|parse|scan)\b")
    found = {name for name, file in MODULES.items() if loads.search(file.read_text())}
    assert found == {"openbach_run.yaml_loaders"}


def test_command_lines_are_read_in_commands_only() -> None:
    """Everywhere else a function is called with options: `run_campaign`, and not our own command.

    `python -m openbach_run` parses nothing. guest/warm.py only loads argparse for the guest's jobs.
    """
    reads = re.compile(r"argparse\.|redirect_stdout|openbach_run\.commands")
    allowed = {"openbach_run.__main__", "openbach_run.guest.warm"}
    found = {
        name
        for name, file in MODULES.items()
        if name.count(".") and room(name) != "commands" and reads.search(file.read_text())
    }
    assert found == allowed


def test_only_what_must_be_ended_after_a_time_starts_our_own_command() -> None:
    """The report and the capture that somebody asks the page for, by one function."""
    starts = re.compile(r'"-m",\s*"openbach_run"')
    found = {name for name, file in MODULES.items() if starts.search(file.read_text())}
    assert found == {"openbach_run.web.shared_work"}


RIDDLE = re.compile(r"(What|Those|Of|Likewise|Whether|How|As|By|The same|Where|From|With) ")
"""First words of a docstring that do not say what comes back or what it is."""


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    """A stranger reads `Return the values…` and knows; `Of those…` sends him elsewhere."""
    files = [*SOURCE.rglob("*.py"), *(SOURCE.parent / "jobs").rglob("*.py")]
    shown = []
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                said = ast.get_docstring(node) or ""
                if RIDDLE.match(said):
                    shown.append(f"{file.relative_to(SOURCE.parent)}: {said.splitlines()[0]}")
    assert not shown


def tracked(*patterns: str) -> list[str]:
    """Return the files that git has, by their paths in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *patterns],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    names = listed.stdout.split("\0")
    return [name for name in names if name and os.path.lexists(REPOSITORY / name)]


@pytest.mark.parametrize(
    ("program", "changes"),
    [
        ("sys.path.insert(0, 'a')", True),
        ("sys.path.append('a')", True),
        ("sys.path[:0] = ['a']", True),
        ("sys.path += ['a']", True),
        ("print(*sys.path)", False),
        ("first = sys.path[0]", False),
        ("text = 'sys.path.append(1)'", False),
    ],
)
def test_changes_of_sys_path_are_seen(program: str, changes: bool) -> None:
    assert changes_sys_path(ast.parse(program)) == changes


PATH_CHANGERS = {
    "src/openbach_run/guest/init.py",
    "src/openbach_run/guest/threads.py",
    "src/openbach_run/guest/warm.py",
    "tests/helpers/job_paths.py",
}
"""init starts Python in the guest; warm and threads start a job there,
which looks in its own folder first; job_paths finds the jobs for tests."""


def test_no_more_files_change_where_python_looks() -> None:
    """pyproject.toml and the Makefile name the places for tests; a file that leaves leaves the list."""
    changers = set()
    for name in tracked("*.py"):
        file = REPOSITORY / name
        if not file.is_symlink() and changes_sys_path(ast.parse(file.read_text())):
            changers.add(name)
    assert changers == PATH_CHANGERS


LINKS = {"kernel": 6, "library": 8, "vpn-configs": 2}
"""How many symbolic links there are below each folder, and why.

A congestion control with a module is a folder that is built alone, by Kbuild here and by DKMS on an
agent. bbr3, cubic_resume and bbr3_resume have sources of each other, which a link keeps the same. So have
the modules of a satellite's two links: three files each, of kernel/modules.
The two OpenVPNs over UDP and TCP make the same keys. quic_split and the stack quic_go are built from
the program of connect_ip."""


def test_no_more_symbolic_links() -> None:
    """A link that leaves leaves the count, too."""
    links = [name for name in tracked() if (REPOSITORY / name).is_symlink()]
    assert Counter(name.split("/")[0] for name in links) == LINKS


def test_the_top_has_at_most_18_entries() -> None:
    """What a newcomer sees; a new kind of data is a folder of the library."""
    assert len({name.split("/")[0] for name in tracked() if not name.startswith(".")}) <= 18


def test_a_new_job_is_listed_nowhere(tmp_path: Path) -> None:
    """Tests and mypy find each job's own modules in its folder, as an agent does."""
    module = tmp_path / "jobs/mine/files/mine.py"
    module.parent.mkdir(parents=True)
    module.touch()
    assert job_paths(tmp_path) == [str(module.parent)]
    assert "jobs/" not in (REPOSITORY / "pyproject.toml").read_text()


def test_no_module_of_a_job_is_called_like_another() -> None:
    """Else tests and mypy could mean either."""
    names = Counter(file.name for file in REPOSITORY.glob("jobs/*/files/*.py"))
    names += Counter(file.name for file in REPOSITORY.glob("jobs/*/*.py"))
    assert not [name for name, count in names.items() if count > 1]


TESTS = ("tests", "pep/tests", "kernel/tests")
IMPORTED_TEST = re.compile(r"^\s*(?:from|import) (?:[\w.]+\.)?(test_\w+|conftest)\b", re.MULTILINE)


def test_no_test_imports_another() -> None:
    """What two tests use is in tests/helpers.

    A test can be changed or left out without the others.
    """
    found = []
    for place in TESTS:
        for file in (REPOSITORY / place).rglob("*.py"):
            for name in IMPORTED_TEST.findall(file.read_text()):
                found.append(f"{file.relative_to(REPOSITORY)} imports {name}")
    assert not found


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("from test_cli import FakeEngine", True),
        ("    from conftest import command", True),
        ("import test_house", True),
        ("from tests.unit.test_cli import run", True),
        ("from helpers.fake_engine import FakeEngine", False),
        ("from fastapi.testclient import TestClient", False),
        ("# test_cli has more", False),
    ],
)
def test_an_import_of_a_test_is_seen(line: str, is_one: bool) -> None:
    assert bool(IMPORTED_TEST.search(line)) == is_one


def test_there_is_one_fake_engine() -> None:
    """Its plays differ, not what the command asks of it."""
    method = re.compile(r"def identity_of\(")
    files = [
        file for file in (REPOSITORY / "tests").rglob("*.py") if method.search(file.read_text())
    ]
    assert [file.name for file in files] == ["fake_engine.py"]


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def riddles_in(tree: ast.AST) -> list[int]:
    """Return the lines of comprehensions that hold another one, or name something on the way."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            within = [one for one in ast.walk(node) if one is not node]
            if any(isinstance(one, (*COMPREHENSIONS, ast.NamedExpr)) for one in within):
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    ("program", "lines"),
    [
        ("[one for one in some]", []),
        ("[one for one in some for other in one]", []),
        ("[[one for one in other] for other in some]", [1]),
        ("x = 1\n{a: b for a in some if (b := look(a))}", [2]),
        ("if (b := look(a)):\n    c = [one for one in b]", []),
    ],
)
def test_a_comprehension_that_nobody_reads_at_once_is_seen(program: str, lines: list[int]) -> None:
    assert riddles_in(ast.parse(program)) == lines


def test_no_comprehension_holds_another() -> None:
    """Two loops, or a name for the inner one, say the same to somebody who reads it once."""
    found = []
    for place in (SOURCE, REPOSITORY / "jobs"):
        for file in place.rglob("*.py"):
            if not file.is_symlink():
                lines = riddles_in(ast.parse(file.read_text()))
                found += [f"{file.relative_to(place)}:{line}" for line in lines]
    assert not found
