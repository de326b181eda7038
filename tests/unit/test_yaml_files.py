# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML is parsed once: what it holds is kept in the cache."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

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


def test_the_same_text_is_parsed_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path, cache: Path) -> None:
    cache.touch()
    assert read_yaml(written(tmp_path, TEXT)) == VALUES
