# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML is parsed once: what it holds is kept in the cache."""

from __future__ import annotations

import contextlib
import datetime
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openbach_run import yaml_files, yaml_loaders
from openbach_run.errors import InputError
from openbach_run.yaml_files import read_texts, read_yaml

TEXT = "a: [1, 0.10, yes, null, 'x']\nb: {ü: -1e3}\n"
VALUES = {"a": [1, 0.1, True, None, "x"], "b": {"ü": "-1e3"}}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yaml_files._folder.cache_clear()
    yield tmp_path / "cache"
    yaml_files._folder.cache_clear()


def written(folder: Path, text: str) -> Path:
    (folder / "one.yml").write_text(text, encoding="utf-8")
    return folder / "one.yml"


def kept(cache: Path) -> list[Path]:
    return list(cache.glob("openbach-run/yaml-*/*"))


def test_the_same_text_is_parsed_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, TEXT)
    values, texts = read_yaml(file), read_texts(file)
    assert values == VALUES and texts["a"] == ["1", "0.10", "yes", "null", "x"]
    monkeypatch.setattr(yaml_loaders, "load", None)
    assert (read_yaml(file), read_texts(file)) == (values, texts)
    monkeypatch.undo()
    assert read_yaml(written(tmp_path, TEXT + "c: 1\n")) == {**VALUES, "c": 1}


def test_what_is_damaged_is_parsed_again(tmp_path: Path, cache: Path) -> None:
    file = written(tmp_path, TEXT)
    read_yaml(file)
    (one,) = kept(cache)
    one.write_text("{")
    assert read_yaml(file) == VALUES
    assert one.read_text() != "{"


def test_what_json_changes_is_not_kept(tmp_path: Path, cache: Path) -> None:
    assert read_yaml(written(tmp_path, "a: 2026-01-01\n")) == {"a": datetime.date(2026, 1, 1)}
    assert read_yaml(written(tmp_path, "1: a\n")) == {1: "a"}
    with pytest.raises(InputError, match=r"(?s)one\.yml: .*line 2"):
        read_yaml(written(tmp_path, "a: 1\n{\n"))
    assert not kept(cache)


def nine_of_nine(first: str, opening: str, closing: str) -> str:
    """Eleven lines, each but the first with nine times the one before."""
    lines = [f"a0: &a0 {first}"]
    for number in range(1, 11):
        same = ", ".join(9 * [f"*a{number - 1}"])
        lines.append(f"a{number}: &a{number} {opening}{same}{closing}")
    return "\n".join(lines)


LAUGHS = nine_of_nine("ha", "[", "]")
MERGED = nine_of_nine("{a: b}", "{<<: [", "]}")
LONG_TEXT = f"a: &a {'x' * 100_000}\nb: [{', '.join(100 * ['*a'])}]\n"


@pytest.mark.parametrize("read", [read_yaml, read_texts])
@pytest.mark.parametrize(
    "text", [LAUGHS, MERGED, LONG_TEXT], ids=["lists", "merged", "one long text"]
)
def test_aliases_count_as_if_they_were_written_out(
    tmp_path: Path, cache: Path, read: Callable[[Path], Any], text: str
) -> None:
    """With 400 MB of memory; they stand for gigabytes."""
    file = written(tmp_path, text)
    with (
        limited_memory(),
        pytest.raises(InputError, match=r"(?s)one\.yml: .*longer than 4 MiB.*line \d+, column"),
    ):
        read(file)
    assert not kept(cache)


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """Lets this process have 400 MB more than it has: what passes that is a MemoryError."""
    has_kb = int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, ((has_kb << 10) + (400 << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("read", [read_yaml, read_texts])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("&a [*a]", "an alias stands for what it is in"),
        ("a: &a {b: {c: *a}}", "an alias stands for what it is in"),
        ("on: !!set {a}", "!!set is no kind of value here"),
        ("on: !!binary aGE=", "!!binary is no kind of value here"),
        ("a: [" + 5000 * "[", "nested too deeply"),
        ("a: " + (4 << 20) * "x", "longer than 4 MiB"),
    ],
)
def test_what_no_json_could_hold_is_refused(
    tmp_path: Path, cache: Path, read: Callable[[Path], Any], text: str, words: str
) -> None:
    with pytest.raises(InputError, match=f"(?s)one\\.yml: .*{words}"):
        read(written(tmp_path, text))


@pytest.mark.parametrize("number", ["1_0", "1:30", "1_0.5", "-1_0", "1:30.5"])
def test_a_number_of_yaml_1_1_alone_is_refused(tmp_path: Path, cache: Path, number: str) -> None:
    with pytest.raises(InputError, match=f"{number} is a number in YAML 1.1 alone: .*"):
        read_yaml(written(tmp_path, f"a: {number}"))
    assert read_texts(written(tmp_path, f"a: {number}")) == {"a": number}
    assert read_yaml(written(tmp_path, f"a: '{number}'\nb: 0755")) == {"a": number, "b": 0o755}


def test_aliases_that_stand_for_little_are_read(tmp_path: Path, cache: Path) -> None:
    assert read_texts(written(tmp_path, "a: &a [x]\nb: *a\nc: [*a, *a]\n")) == {
        "a": ["x"],
        "b": ["x"],
        "c": [["x"], ["x"]],
    }
    assert read_yaml(written(tmp_path, "a: &a {x: 1}\nb: {<<: *a, y: 2}\n")) == {
        "a": {"x": 1},
        "b": {"x": 1, "y": 2},
    }


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path, cache: Path) -> None:
    cache.touch()
    assert read_yaml(written(tmp_path, TEXT)) == VALUES
