# SPDX-License-Identifier: GPL-3.0-or-later
"""A loader of YAML that is fast, and strict about what it accepts.

libyaml's loader reads a file. What it refuses is read again by PyYAML's own loader, which says
where the fault begins.

Eleven lines of aliases of aliases may stand for gigabytes, and an alias may stand for what contains
it. So the length of a file is measured with its aliases written out.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

import yaml

from openbach_run.json_files import check_nesting

LONGEST = 4 << 20
"""The most characters of a file, and of its values with all aliases written out; ours have up to 22
000."""

EXACT_LONGEST = 100_000
"""The most characters for PyYAML's own loader, which takes a second for so many."""
INT, LONGEST_INT = "tag:yaml.org,2002:int", 300
"""The tag of whole numbers, and their most digits. No float holds a longer one; Python shows none
of more than 4300 digits."""
OLD_NUMBER = re.compile(".*[_:]")
"""Signs of numbers of YAML 1.1 alone: 1_0 is 10, and 1:30 is 90. (Playbooks need its 0755.)"""
NO_JSON = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("set", "omap", "pairs", "binary"))


class _Bounded:
    """A loader that refuses documents that are not plain data of bounded size.

    It refuses what is too long with its aliases written out, what contains itself, and values that
    JSON does not have.
    """

    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()  # type: ignore[misc]
        if node is not None:
            _written_out(node, {})
        return node


def _written_out(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the length of a node's values and of the nodes in it, with aliases written out.

    `known` has the lengths by the node's id. Raises YAMLError.
    """
    if node.tag in NO_JSON:
        raise _refused(node, f"!!{node.tag.rpartition(':')[2]} is no kind of value here")
    if isinstance(node, yaml.ScalarNode):
        if node.tag == INT and len(node.value) > LONGEST_INT:
            raise _refused(node, f"a whole number of more than {LONGEST_INT} digits")
        if node.tag.endswith((":int", ":float")) and OLD_NUMBER.match(node.value):
            text = f"{node.value} is a number in YAML 1.1 alone: its digits, or a text in quotes"
            raise _refused(node, text)
        return 1 + len(node.value)
    if id(node) not in known:
        known[id(node)] = -1  # while it is read
        # A mapping's value is a list of pairs of nodes.
        inner = (
            node.value if isinstance(node, yaml.SequenceNode) else chain.from_iterable(node.value)
        )
        known[id(node)] = 1 + sum(_written_out(child, known) for child in inner)
    length = known[id(node)]
    if length < 0:
        raise _refused(node, "an alias stands for what it is in")
    if length > LONGEST:
        text = f"with its aliases written out this is longer than {LONGEST >> 20} MiB"
        raise _refused(node, text)
    return length


def _refused(node: yaml.Node, text: str) -> yaml.YAMLError:
    return yaml.constructor.ConstructorError(None, None, text, node.start_mark)


class _Once:
    """A loader that refuses a key that occurs twice: only one of its values would count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key, _ in node.value:
            # YAML forbids it, and PyYAML lets the last one win (YAML 1.2).
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise _refused(key, f"{key.value!r} is there twice")
            if isinstance(key, yaml.ScalarNode):
                seen.add(key.value)
        return super().construct_mapping(node, deep)  # type: ignore[misc,no-any-return]


class _TextLoader(_Once, _Bounded, yaml.BaseLoader): ...


class _FastTextLoader(_Once, _Bounded, yaml.CBaseLoader): ...


class _Loader(_Once, _Bounded, yaml.SafeLoader): ...


class _FastLoader(_Once, _Bounded, yaml.CSafeLoader): ...


def load(text: str, *, as_texts: bool = False) -> Any:
    """Return the content of a text; with `as_texts` every value in it is a text.

    Raises ValueError, which says where the fault is, or RecursionError.
    """
    fast, exact = (_FastTextLoader, _TextLoader) if as_texts else (_FastLoader, _Loader)
    if len(text) > LONGEST:
        raise ValueError(f"longer than {LONGEST >> 20} MiB")
    try:
        try:
            # The loader in C is some ten times as fast, but its messages say less: a text that it
            # refuses is read again.
            content = yaml.load(text, fast)
        except yaml.YAMLError as error:
            if "nesting depth" in str(error):
                raise RecursionError from error
            if len(text) > EXACT_LONGEST:
                raise  # PyYAML's own loader would take too long
            content = yaml.load(text, exact)
        check_nesting(content)
        return content
    # A value may have a tag that is not its own.
    except (TypeError, OverflowError, AttributeError, IndexError) as error:
        raise ValueError(f"a value is not of the kind that its tag names ({error})") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
