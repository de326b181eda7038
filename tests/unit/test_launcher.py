# SPDX-License-Identifier: GPL-3.0-or-later
"""The launcher's Python environment.

Made again when a package of it cannot be imported; a cache that cannot be written; a machine
without Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from openbach_run import __main__ as entry

MISSING = ModuleNotFoundError("No module named 'rich'", name="rich")
BROKEN = SyntaxError(
    "invalid syntax", ("/cache/venv-0/lib/python3.11/site-packages/rich/console.py", 1, 1, "", 1, 1)
)
OURS = ImportError(
    "cannot import name 'x' from 'openbach_run.commands.main'", name="openbach_run.commands.main"
)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "complete").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delenv(entry.MADE_AGAIN, raising=False)
    return tmp_path


@pytest.mark.parametrize(("error", "theirs"), [(MISSING, True), (BROKEN, True), (OURS, False)])
def test_damage_is_told_from_a_mistake_of_ours(
    environment: Path, error: ImportError | SyntaxError, theirs: bool
) -> None:
    assert entry.damaged(error) is theirs


def test_an_environment_of_someone_else_is_left_alone(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(entry.MADE_AGAIN, "1")
    assert not entry.damaged(MISSING)  # it has just been made
    monkeypatch.delenv(entry.MADE_AGAIN)
    (environment / "complete").unlink()
    assert not entry.damaged(MISSING)


def test_it_is_made_again_and_the_command_goes_on(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[list[str]] = []
    monkeypatch.setitem(sys.modules, "openbach_run.commands.main", None)  # its import fails
    monkeypatch.setattr(entry, "damaged", lambda error: True)
    monkeypatch.setattr(sys, "argv", ["openbach-run", "geo", "vpn=none"])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(os, "execv", lambda path, words: started.append(words))
    entry.main()
    assert started == [[str(entry.LAUNCHER), "geo", "vpn=none"]]
    assert not (environment / "complete").exists()
    assert f"{environment} is damaged" in capsys.readouterr().err


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file"), "OPENBACH_RUN_EXTRA": ""}
    done = subprocess.run(
        [entry.LAUNCHER, "--help"], env=environment, check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "cannot be written; XDG_CACHE_HOME names another place" in done.stderr


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (0, "installing python3-venv\n"),
        (1000, "python3 is missing: install Python 3.11 or later\n"),
    ],
)
def test_python_is_installed_where_that_is_possible(tmp_path: Path, user: int, said: str) -> None:
    for name in ("bash", "dirname", "realpath", "cat", "mkdir", "flock"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    for name, script in {"id": f"echo {user}", "apt-get": f"echo $* >> {tmp_path}/called"}.items():
        (tmp_path / name).write_text(f"#!{tmp_path}/bash\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [str(tmp_path / "bash"), str(entry.LAUNCHER), "--help"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr == f"openbach-run: {said}"
    called = tmp_path / "called"
    assert (
        not called.exists()
        if user
        else called.read_text() == "-o DPkg::Lock::Timeout=600 update -qq\n"
        "-o DPkg::Lock::Timeout=600 install -y -qq python3-venv\n"
    )


MAKES_ENVIRONMENTS = """#!/bin/sh
echo "$*" >> "{folder}/started"
[ "$1 $2 $3" != "-I -m venv" ] || { mkdir -p "$4/bin" && for name in python pip uv; do ln -s {true} "$4/bin/$name"; done; }
"""


def test_python_is_started_only_to_make_the_environment(tmp_path: Path) -> None:
    """It may be a script that takes 0.1 s of CPU, as pyenv's does.

    Another version of it has another environment.
    """
    started = tmp_path / "started"
    for version in ("python3.11", "python3.13"):
        (tmp_path / version).write_text(
            MAKES_ENVIRONMENTS.replace("{folder}", str(tmp_path)).replace(
                "{true}", shutil.which("true") or ""
            )
        )
        (tmp_path / version).chmod(0o755)

    def command(version: str) -> str:
        (tmp_path / "python3").unlink(missing_ok=True)
        (tmp_path / "python3").symlink_to(version)
        started.write_text("")
        changed = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(tmp_path),
            "OPENBACH_RUN_EXTRA": "",
        }
        done = subprocess.run(
            [entry.LAUNCHER],
            env={**os.environ, **changed},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stderr

    assert (
        "making the Python environment" in command("python3.11")
        and "-m venv" in started.read_text()
    )
    assert command("python3.11") == started.read_text() == ""
    assert (
        "making the Python environment" in command("python3.13")
        and "-m venv" in started.read_text()
    )
    for python in tmp_path.glob("openbach-run/venv-*/bin/python"):
        python.unlink()  # what it links to is gone, say
    assert "is damaged (bin/python is missing): making it again" in command("python3.13")
    assert command("python3.13") == started.read_text() == ""


TOOL = """#!/bin/sh
echo "${0##*/} $*" >> "$CALLED"
case "${0##*/} $*" in
"pip config list") echo "$PIP_SETTINGS" ;;
"uv pip install"*) exit "$UV_CODE" ;;
esac
"""


@pytest.mark.parametrize(
    ("pip_settings", "uv_code", "by"),
    [
        ("global.cert='/etc/ssl/cert.pem'", 0, ["uv"]),
        ("global.cert='/etc/ssl/cert.pem'", 1, ["uv", "pip"]),
        ("global.index-url='https://packages.example/simple'", 0, ["pip"]),
        (":env:.extra-index-url='https://packages.example/simple'", 0, ["pip"]),
    ],
)
def test_packages_come_by_uv_unless_pip_knows_where_they_are(
    tmp_path: Path, pip_settings: str, uv_code: int, by: list[str]
) -> None:
    (tmp_path / "tool").write_text(TOOL)
    (tmp_path / "python3").write_text(f"""#!/bin/sh
[ "$1 $2 $3" = "-I -m venv" ] || exit 0
mkdir -p "$4/bin" && for name in python pip uv; do cp {tmp_path}/tool "$4/bin/$name"; done
""")
    for name in ("tool", "python3"):
        (tmp_path / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path),
        "OPENBACH_RUN_EXTRA": "",
        "CALLED": str(tmp_path / "called"),
        "PIP_SETTINGS": pip_settings,
        "UV_CODE": str(uv_code),
    }
    subprocess.run([entry.LAUNCHER], env=environment, check=True, capture_output=True)
    called = (tmp_path / "called").read_text().splitlines()
    assert [
        line.split()[0]
        for line in called
        if "requirements" in line and not line.startswith("python")
    ] == by
    assert all("--require-hashes" in line for line in called if " install " in line)


def started(
    environment: dict[str, str], launcher: Path = entry.LAUNCHER
) -> subprocess.CompletedProcess[str]:
    return subprocess.run([launcher], env=environment, check=False, capture_output=True, text=True)


def write_wheel(folder: Path, version: str, code: str) -> str:
    """Write a package of one module, `gadget`; return its SHA-256."""
    about, file = f"gadget-{version}.dist-info", folder / f"gadget-{version}-py3-none-any.whl"
    told = f"Metadata-Version: 2.1\nName: gadget\nVersion: {version}\n"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("gadget.py", code)
        made.writestr(f"{about}/METADATA", told)
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")
    with (folder / "index.html").open("a") as index:
        index.write(f"<a href={file.name}>{file.name}</a>")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_newer_broken_package_of_the_index_is_not_installed(tmp_path: Path) -> None:
    """Until commit cca2fdc5 a first start took whatever was newest, unhashed."""
    index = tmp_path / "index/gadget"
    for folder in (tmp_path / "src", tmp_path / "tools/locks", index):
        folder.mkdir(parents=True)
    digest = write_wheel(index, "1.0", "")
    write_wheel(index, "2.0", "raise OSError")
    (tmp_path / "src/openbach_run.py").write_text("import gadget")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["gadget>=1"]\n')
    lock = tmp_path / "tools/locks/requirements.lock"
    lock.write_text(f"# 1\ngadget==1.0 --hash=sha256:{digest}\n")
    shutil.copy(entry.LAUNCHER, tmp_path)
    path = os.environ["PATH"].replace(f"{sys.prefix}/bin:", "")
    places = {"PIP_INDEX_URL": f"file://{index.parent}", "XDG_CACHE_HOME": str(tmp_path / "a")}
    first = started({**os.environ, "PATH": path, **places}, tmp_path / "openbach-run")
    assert first.returncode == 0, first.stderr
    write_wheel(index, "1.0", "print('taken over')")
    again = {**places, "XDG_CACHE_HOME": str(tmp_path / "c")}
    second = started({**os.environ, "PATH": path, **again}, tmp_path / "openbach-run")
    assert second.returncode == 1 and "requirements.lock failed" in second.stderr
    assert not list(tmp_path.glob("c/openbach-run/*/complete"))


@pytest.fixture
def faked(tmp_path: Path) -> dict[str, str]:
    """Environment variables of a cache whose Python runs nothing."""
    python = MAKES_ENVIRONMENTS.replace("{folder}", str(tmp_path))
    (tmp_path / "python3").write_text(python.replace("{true}", shutil.which("true") or ""))
    (tmp_path / "python3").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "OPENBACH_RUN_EXTRA": ""}
    return {**os.environ, **path, "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize("owner", [12345, 0])
@pytest.mark.parametrize(
    "what",
    [
        "cache",
        "cache/openbach-run",
        "cache/openbach-run/venv-*[!k]",
        "cache/openbach-run/venv-*/bin",
    ],
)
def test_a_cache_of_another_user_is_not_executed(
    what: str, owner: int, tmp_path: Path, faked: dict[str, str]
) -> None:
    """At commit 645e97fc root ran the script that another user had put there."""
    before = os.umask(0)  # what is made is closed to others nevertheless
    assert started(faked).returncode == 0 == started(faked).returncode
    os.umask(before)
    (place,) = tmp_path.glob(what)
    (python,) = tmp_path.glob("cache/openbach-run/*/bin/python")
    python.unlink()
    python.write_text("#!/bin/sh\necho executed\n")
    python.chmod(0o755)
    if owner and os.geteuid() == 0:
        os.chown(place, owner, owner)
    else:
        place.chmod(0o777)
    done = started(faked)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"another user owns {place} or can write to it" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a link of another user")
def test_a_link_of_another_user_to_a_cache_is_not_followed(
    tmp_path: Path, faked: dict[str, str]
) -> None:
    (tmp_path / "cache/mine").mkdir(parents=True)
    (tmp_path / "cache").chmod(0o1777)  # as /tmp
    place = tmp_path / "cache/openbach-run"
    place.symlink_to("mine")
    assert started(faked).returncode == 0
    os.lchown(place, 12345, 12345)
    done = started(faked)
    assert done.returncode == 1 and f"another user owns {place} or can write" in done.stderr


def test_a_cache_that_another_user_makes_meanwhile_is_not_filled(
    tmp_path: Path, faked: dict[str, str]
) -> None:
    """Somebody makes it in /tmp between the first look and `mkdir -p`, which is content then."""
    (tmp_path / "mkdir").write_text(f'#!/bin/sh\n{shutil.which("mkdir")} -m 777 -p "$2"\n')
    (tmp_path / "mkdir").chmod(0o755)
    (tmp_path / "cache").mkdir()
    done = started(faked)
    assert done.returncode == 1 and "cache/openbach-run or can write to it" in done.stderr
    assert not list(tmp_path.glob("cache/openbach-run/venv-*[!k]"))


@pytest.mark.parametrize("name", ["a b", "$(touch run)", "`touch run`", 'a"b', "a:b", "a\nb"])
def test_a_path_of_the_cache_that_shells_expand_is_refused(
    name: str, tmp_path: Path, faked: dict[str, str]
) -> None:
    """At commit c2fd0045 pip's first two lines, which are a shell's, ran what is in `$()`."""
    done = started({**faked, "XDG_CACHE_HOME": str(tmp_path / name)})
    assert done.returncode == 1 and "a blank, or a sign that shells expand; XDG" in done.stderr
    assert not (tmp_path / name).exists()
    assert started({**faked, "XDG_CACHE_HOME": f"{tmp_path}/é.+@,=~-_1"}).returncode == 0


def test_an_extra_that_there_is_not_is_named(faked: dict[str, str]) -> None:
    done = started({**faked, "OPENBACH_RUN_EXTRA": "nope"})
    assert done.returncode == 2
    assert done.stderr == "openbach-run: OPENBACH_RUN_EXTRA=nope: dev or cluster, or nothing\n"


def test_an_empty_home_is_an_error_with_words(faked: dict[str, str]) -> None:
    """The launcher took that of passwd then, and Python took /."""
    done = started({**faked, "XDG_CACHE_HOME": "", "HOME": ""})
    assert done.returncode == 1 and "no home directory; name a place for the cache" in done.stderr
    for more in ({"XDG_CACHE_HOME": "cache"}, {"XDG_CACHE_HOME": "", "HOME": "home"}):
        done = started({**faked, **more})
        assert (done.returncode, done.stdout) == (1, "") and "from / on" in done.stderr


def test_what_is_compiled_once_is_kept() -> None:
    """Each start took 0.3 s of CPU more where PYTHONDONTWRITEBYTECODE is set.

    Many containers set it.
    """
    command = [str(entry.LAUNCHER), "python", "-c", "import sys; print(sys.dont_write_bytecode)"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OPENBACH_RUN_EXTRA": "dev"}
    assert (
        subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        == "False\n"
    )


def test_nothing_of_the_directory_it_is_typed_in_is_run(tmp_path: Path) -> None:
    """Modules of Python there came before the standard library's."""
    (tmp_path / "argparse.py").write_text("open('run', 'w')")
    environment = {
        name: value for name, value in os.environ.items() if name != "OPENBACH_RUN_EXTRA"
    }
    done = subprocess.run(
        [entry.LAUNCHER, "--version"],
        check=False,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run").exists()
