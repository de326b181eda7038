# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML that people write: whatever is wrong with it is said with its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from openbach_run.errors import InputError


class _Texts:
    """Leaves every scalar the text that was typed (`0.10`, `yes`), and refuses a key that is there twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[misc,no-any-return]


class _TextLoader(_Texts, yaml.BaseLoader): ...


class _FastTextLoader(_Texts, yaml.CBaseLoader): ...


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises InputError."""
    return _read(path, yaml.CSafeLoader, yaml.SafeLoader)


def read_texts(path: Path) -> Any:
    """The content of a YAML file in which every value is a text. Raises InputError."""
    return _read(path, _FastTextLoader, _TextLoader)


def _read(path: Path, fast: Any, exact: Any) -> Any:
    """By the loader of libyaml; what that refuses, by PyYAML's own, which says where the fault begins."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            return yaml.load(text, fast)
        except yaml.YAMLError:
            return yaml.load(text, exact)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: YAML nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # a date that there is not, say
        raise InputError(f"{path}: {error}") from error
