# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run python` and `notebook`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from openbach_run.commands import main, notebook
from openbach_run.commands.notebook import LAUNCHER


def test_python_runs_a_file_with_its_words_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    file = tmp_path / "figure.py"
    file.write_text(
        "import sys, beside, matplotlib, openbach_run, pandas, pyarrow\nprint(sys.argv[1:], beside.WORD)\n"
    )
    words = [str(LAUNCHER), "python", str(file), "--quiet", "a b"]
    done = subprocess.run(words, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "['--quiet', 'a b'] beside\n"), done.stderr
    failed = subprocess.run([LAUNCHER, "python", "-c", "import sys; sys.exit(7)"], check=False)
    assert failed.returncode == 7


@pytest.mark.parametrize("name", ["python", "notebook"])
def test_their_help_is_ours(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main.main([name, "--help"])
    assert f"openbach-run {name}" in capsys.readouterr().out


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What takes the place of this process."""
    found: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: found.append((str(path), words)))
    monkeypatch.setattr(notebook, "find_spec", lambda name: None)
    monkeypatch.delenv("OPENBACH_RUN_EXTRA", raising=False)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return found


def test_a_checkout_gets_jupyter_when_it_is_asked_for(
    started: list[tuple[str, list[str]]],
) -> None:
    main.main(["notebook", "mine.ipynb"])
    words = [str(LAUNCHER), "python", "-m", "jupyterlab", "mine.ipynb"]
    assert started[0] == (str(LAUNCHER), words) and os.environ["OPENBACH_RUN_EXTRA"] == "notebook"


def test_beside_a_wheel_it_is_said_how_to_get_it(
    started: list[tuple[str, list[str]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(notebook, "LAUNCHER", tmp_path / "none")
    assert main.main(["notebook"]) == 1 and not started
    assert "pip install 'openbach-run[notebook]'" in capsys.readouterr().err
