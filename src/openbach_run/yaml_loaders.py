# SPDX-License-Identifier: GPL-3.0-or-later
"""How YAML is read: by the loader of libyaml; what that refuses, by PyYAML's own, which says where the fault begins."""

from __future__ import annotations

from typing import Any

import yaml


class _Once:
    """Refuses a key that is there twice: only one of its values would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} is there twice", key.start_mark)
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[misc,no-any-return]


class _TextLoader(_Once, yaml.BaseLoader): ...


class _FastTextLoader(_Once, yaml.CBaseLoader): ...


class _Loader(_Once, yaml.SafeLoader): ...


class _FastLoader(_Once, yaml.CSafeLoader): ...


def load(text: str, *, as_texts: bool) -> Any:
    """The content; with `as_texts` every value in it is the text that was typed (`0.10`, `yes`). Raises ValueError with
    where the fault is."""
    fast, exact = (_FastTextLoader, _TextLoader) if as_texts else (_FastLoader, _Loader)
    try:
        try:
            return yaml.load(text, fast)
        except yaml.YAMLError:
            return yaml.load(text, exact)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
