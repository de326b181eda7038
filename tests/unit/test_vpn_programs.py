# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of VPNs are built for the runs that need them; one that cannot be is told of."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import vpn_go_program

from openbach_run.catalog import is_used
from openbach_run.engine.virtual import programs
from openbach_run.engine.virtual.image import code_identity
from openbach_run.engine.virtual.jail import Jail, ensure_jail
from openbach_run.engine.virtual.programs import HOST_VARIABLE, ensure_programs, host_programs
from openbach_run.errors import SetupError
from openbach_run.paths import cache_directory

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "vpn-configs"
TOLD: list[tuple[str, float]] = []


def made_up_vpn(folder: Path, monkeypatch: pytest.MonkeyPatch, builder: str) -> dict[str, Path]:
    """Make a VPN `mine`, and `other`, which is `mine` with other values.

    Its program is built by the lines of `builder`.
    """
    (folder / "mine").mkdir(parents=True)
    recipe = {"crate": "mine", "version": "1.0.0", "sha256": "0"}
    (folder / "mine/vpn.json").write_text(json.dumps({"programs": {"mined": recipe}}))
    (folder / "other").mkdir()
    (folder / "other/vpn.json").write_text(json.dumps({"base": "mine"}))
    (folder / "builder.py").write_text(builder)
    monkeypatch.setitem(programs.BUILDERS, "crate", folder / "builder.py")
    return {f"vpn-configs/{name}": folder / name for name in ("mine", "other")}


def progress(text: str, part: float) -> None:
    TOLD.append((text, part))


def jail() -> Jail:
    return ensure_jail(cache_directory(), ROOT / "kernel", progress)


@pytest.fixture(autouse=True)
def jail_is_there() -> None:
    """Before a test hides the compiler."""
    jail()


def test_a_program_is_built_once_and_only_for_who_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = (
        "import sys; print('0.5 compiling', flush=True); open(sys.argv[3] + '/mined',"
        " 'x').write(sys.argv[1])"
    )
    parts = made_up_vpn(tmp_path / "vpns", monkeypatch, builder)
    other = {name: folder for name, folder in parts.items() if name.endswith("other")}
    assert ensure_programs(tmp_path / "cache", other, jail, progress) == {}
    assert not (tmp_path / "cache").exists()
    TOLD.clear()
    first = ensure_programs(tmp_path / "cache", parts, jail, progress)
    assert first["bin/mined"].read_text() == str(tmp_path / "vpns/mine")
    assert TOLD == [("building mined 1.0.0: compiling", 0.5)]
    assert ensure_programs(tmp_path / "cache", parts, jail, progress) == first


def test_what_cannot_be_built_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = made_up_vpn(
        tmp_path / "vpns", monkeypatch, "import sys; sys.exit('cargo is missing on this machine')"
    )
    with pytest.raises(
        SetupError, match=r"building mined 1\.0\.0 failed: cargo is missing on this machine"
    ):
        ensure_programs(tmp_path / "cache", parts, jail, progress)
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix == ""]


def test_without_cargo_the_command_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        SetupError,
        match=r"vpncloud 2\.3\.0 is built from crates\.io, and cargo is missing on this machine",
    ):
        ensure_programs(
            tmp_path / "cache", {"vpn-configs/vpncloud": CONFIGS / "vpncloud"}, jail, progress
        )


def test_what_a_build_needs_is_installed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    (tmp_path / "apt-get").touch(0o755)
    with pytest.raises(SetupError, match=r"sudo apt-get install clang cmake make$"):
        ensure_programs(
            tmp_path / "cache", {"vpn-configs/rosenpass": CONFIGS / "rosenpass"}, jail, progress
        )


@pytest.mark.parametrize("kind", sorted(file.parent.name for file in CONFIGS.glob("*/vpn.json")))
def test_what_a_registry_has_is_pinned_by_its_hash(kind: str) -> None:
    for recipe in (
        json.loads((CONFIGS / kind / "vpn.json").read_text()).get("programs", {}).values()
    ):
        if "source" in recipe and "build" not in recipe:
            pinned = (CONFIGS / kind / recipe["source"] / "go.sum").read_text().splitlines()
            assert pinned and all(" h1:" in line for line in pinned)
        elif "host" not in recipe:
            assert len(recipe.keys() & {"crate", "go", "wheel"}) == 1
            assert set(recipe) >= {"version", "sha256"}
            assert len(bytes.fromhex(recipe["sha256"])) == 32


def test_words_about_the_build_build_nothing_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = "import sys; open(sys.argv[3] + '/mined', 'x').close()"
    parts = made_up_vpn(tmp_path / "vpns", monkeypatch, builder)
    first = ensure_programs(tmp_path / "cache", parts, jail, progress)
    (tmp_path / "vpns/builder.py").write_text(f"# a comment\n{builder}")
    assert ensure_programs(tmp_path / "cache", parts, jail, progress) == first
    (tmp_path / "vpns/builder.py").write_text(f"import os; {builder}")
    assert ensure_programs(tmp_path / "cache", parts, jail, progress) != first


# Go modules

GO = """#!{python}
# Not Go: it has the one module, and writes what it should build.
import os, sys
match sys.argv[1:]:
    case ["mod", "download", *_]:
        print('{{"Zip": "{archive}"}}')
    case ["env", _]:
        print("go{version}")
    case ["list", *_]:
        print("one two")
    case ["build", *options, directory, first, second]:
        print("one", file=sys.stderr)
        for package in (first, second):
            open(directory + os.path.basename(package), "x").write(package + " " + os.environ["CGO_ENABLED"])
"""


def go_module(
    place: Path, monkeypatch: pytest.MonkeyPatch, version: str = "1.24.4", sha256: str = ""
) -> dict[str, Path]:
    """A VPN with two programs of a Go module, on a machine with that version of Go."""
    (place / "path").mkdir()
    archive = place / "path/module.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("example.org/mine@v1.0.0/go.mod", "module example.org/mine\n\ngo 1.24.0\n")
    sha256 = sha256 or hashlib.sha256(archive.read_bytes()).hexdigest()
    recipe = {"go": "example.org/mine", "version": "1.0.0", "sha256": sha256, "also": ["mine"]}
    (place / "vpn").mkdir()
    (place / "vpn/vpn.json").write_text(json.dumps({"programs": {"mined": recipe}}))
    if version:
        (place / "path/go").write_text(
            GO.format(python=Path(sys.executable).resolve(), archive=archive, version=version)
        )
        (place / "path/go").chmod(0o755)
    monkeypatch.setenv("PATH", str(place / "path"))
    return {"vpn-configs/vpn": place / "vpn"}


def test_the_programs_of_a_go_module_are_built_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = go_module(tmp_path, monkeypatch)
    TOLD.clear()
    found = ensure_programs(tmp_path / "cache", parts, jail, progress)
    assert {place: file.read_text() for place, file in found.items()} == {
        "bin/mined": "./cmd/mined 0",
        "bin/mine": "./cmd/mine 0",
    }
    assert TOLD == [
        ("building mined 1.0.0: downloading example.org/mine 1.0.0", 0),
        ("building mined 1.0.0: downloading what it needs", 0),
        ("building mined 1.0.0: compiling one", 0.5),
    ]
    assert sorted(file.name for file in found["bin/mine"].parent.iterdir()) == ["mine", "mined"]


@pytest.mark.parametrize(
    ("version", "sha256", "said"),
    [
        (
            "",
            "",
            r"mined 1\.0\.0 is built from the Go module proxy, and go is missing on this machine",
        ),
        ("1.19.8", "", r"mined 1\.0\.0 needs Go 1\.24\.0, and this machine has 1\.19\.8"),
        ("1.24.4", "0" * 64, r"module\.zip: its SHA-256 is [0-9a-f]{64}, it should be 0{64}"),
    ],
)
def test_a_go_module_that_cannot_be_built_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, sha256: str, said: str
) -> None:
    parts = go_module(tmp_path, monkeypatch, version, sha256)
    with pytest.raises(SetupError, match=said):
        ensure_programs(tmp_path / "cache", parts, jail, progress)
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix == ""]


def test_a_platform_builds_crates_with_the_same_command(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(programs.BUILDERS["go"]),
        str(CONFIGS / "vpncloud"),
        "vpncloud",
        str(tmp_path),
    ]
    ended = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "src")},
    )
    assert (
        "vpncloud 2.3.0 is built from crates.io, and cargo is missing on this machine"
        in ended.stderr
    )


# Programs of this machine


def wants_a_host_program(place: Path, name: str = "mine") -> dict[str, Path]:
    """A VPN whose program nobody but this machine's user has."""
    folder = place / "vpn-configs" / name
    folder.mkdir(parents=True)
    recipe = {f"{name}d": {"host": f"https://example.org/{name}d"}}
    (folder / "vpn.json").write_text(json.dumps({"programs": recipe}))
    return {f"vpn-configs/{name}": folder}


def compiled(place: Path, *options: str, code: str = "int main(void) { return 0; }") -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", str(place), *options], check=True, input=code, text=True
    )


def guest_tree(place: Path) -> Path:
    """A tree with this machine's C library where the guest's is."""
    for name, directory in (
        ("ld-linux-x86-64.so.2", "usr/lib64"),
        ("libc.so.6", "usr/lib/x86_64-linux-gnu"),
    ):
        (place / directory).mkdir(parents=True)
        shutil.copy(
            f"/lib64/{name}" if name.startswith("ld-") else f"/lib/x86_64-linux-gnu/{name}",
            place / directory,
        )
    return place


def test_all_host_programs_that_are_missing_are_asked_for_at_once(tmp_path: Path) -> None:
    """One after the other they were: five commands to learn of five."""
    with pytest.raises(SetupError) as error:
        host_programs(
            wants_a_host_program(tmp_path) | wants_a_host_program(tmp_path, "other"), tmp_path
        )
    for name in ("mine", "other"):
        assert f"{name} needs {name}d (get it from https://example.org/{name}d)" in str(error.value)
    assert HOST_VARIABLE in str(error.value)


@pytest.mark.parametrize("options", [(), ("-static",)])
def test_a_host_program_is_part_of_the_vpns_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    compiled(tmp_path / "checkout/mined", *options)
    monkeypatch.setenv(HOST_VARIABLE, f"/nowhere:{tmp_path / 'checkout'}")
    found = host_programs(wants_a_host_program(tmp_path), guest_tree(tmp_path / "guest"))
    assert found == {"vpn-configs/mine/bin/mined": tmp_path / "checkout/mined"}
    (place,) = found
    assert is_used(place, {"vpn-configs": ["mine"]}) and not is_used(
        place, {"vpn-configs": ["other"]}
    )
    identity = code_identity(tmp_path / "cache", found)
    compiled(tmp_path / "checkout/mined", *options, code="int main(void) { return 1; }")
    assert code_identity(tmp_path / "cache", found) != identity


@pytest.mark.parametrize(
    "soname", [(), ("-Wl,-soname,libmined.so",)]
)  # found by its path here, or not at all
def test_a_host_program_that_needs_other_libraries_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soname: tuple[str, ...]
) -> None:
    compiled(
        tmp_path / "libmined.so",
        "-shared",
        "-fPIC",
        *soname,
        code="int answer(void) { return 42; }",
    )
    code = "int answer(void); int main(void) { return answer(); }"
    compiled(tmp_path / "checkout/mined", "-xnone", str(tmp_path / "libmined.so"), code=code)
    monkeypatch.setenv(HOST_VARIABLE, str(tmp_path / "checkout"))
    with pytest.raises(
        SetupError, match=r"does not run in the guest: .*libmined\.so.*Link it statically"
    ):
        host_programs(wants_a_host_program(tmp_path), guest_tree(tmp_path / "guest"))


def test_a_script_is_a_host_program_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mined").write_text("#!/bin/sh\n")
    (tmp_path / "mined").chmod(0o755)
    monkeypatch.setenv(HOST_VARIABLE, str(tmp_path))
    assert list(host_programs(wants_a_host_program(tmp_path), tmp_path)) == [
        "vpn-configs/mine/bin/mined"
    ]


ASKS_FOR_AVX512 = """
func HasFastScanSpanPacked() bool {
	return avx512ScanPackedReqsMet
}
"""


def go_root(folder: Path, monkeypatch: pytest.MonkeyPatch, collector: str | None) -> Path:
    """Make a Go whose garbage collector has this source; return the folder of a module."""
    if collector is not None:
        file = folder / "go" / vpn_go_program.COLLECTOR
        file.parent.mkdir(parents=True)
        file.write_text(collector)
    known = {"GOROOT": str(folder / "go"), "GOVERSION": "go1.27"}
    monkeypatch.setattr(vpn_go_program, "output_of", lambda words, _: known[words[-1]] + "\n")
    (folder / "work/mine").mkdir(parents=True)
    return folder / "work/mine"


def test_go_collects_garbage_as_without_avx512(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AVX-512 its collector reads the clock at other times, and packets moved."""
    source = go_root(tmp_path, monkeypatch, ASKS_FOR_AVX512)
    (option,) = vpn_go_program.same_on_every_cpu(source)
    (changed,) = json.loads(Path(option.partition("=")[2]).read_text())["Replace"].values()
    assert "bool {\n\treturn false\n}" in Path(changed).read_text()


def test_go_without_such_a_collector_is_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vpn_go_program.same_on_every_cpu(go_root(tmp_path, monkeypatch, None)) == []


def test_a_go_whose_collector_is_not_known_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = go_root(tmp_path, monkeypatch, "func Other() {}")
    with pytest.raises(SystemExit, match=r"it is not known how go1\.27 asks for AVX-512"):
        vpn_go_program.same_on_every_cpu(source)
