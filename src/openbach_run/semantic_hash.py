# SPDX-License-Identifier: GPL-3.0-or-later
"""A hash of what acts in a file, without the words for people.

An edit of a comment, a docstring, a description or a README then does not make finished runs stale.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import sys
import tokenize
from functools import cache, lru_cache
from pathlib import Path, PurePath
from typing import Any

WORDS = frozenset(
    {
        "title",
        "description",
        "source",
        "version",
        "licence",
        "runs_in",
        "ciphers",
        "keys",
        "multipath",
        "post_quantum",
        "tested",
        "reads",
        "$schema",
    }
)
"""Keys of a folder's description (vpn.json, profile.json, a satellite's YAML) that no run reads."""
FOR_PEOPLE = (".md", ".help", ".8")
"""Suffixes of files that no program reads."""
ARGUMENT = ("name", "type", "count", "flag", "repeatable")
C_COMMENT = re.compile(
    r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?\*/', re.DOTALL
)
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@cache
def way() -> str:
    """Return a hash of this module and of Python's version.

    A hash of acting content that is kept in the cache holds for the same ones only.
    """
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()


def acting(file: Path) -> bytes:
    """Return a file's content without words for people.

    A file that cannot be parsed counts whole.
    """
    return _acting(file.name, file.read_bytes())


@lru_cache(maxsize=1024)
def _acting(name: str, content: bytes) -> bytes:
    """Return a content without words.

    It is cached: the cells of a campaign have most files in common.
    """
    # Late: its import takes longer than a command that finds the hash in the cache.
    from openbach_run import yaml_loaders

    try:
        text = content.decode()
        match (file := PurePath(name)).suffix:
            case ".py":
                return _python(text).encode()
            case ".c" | ".h" | ".S":
                # A text in quotes is matched, too, and kept: what looks like a comment in it is
                # none.
                return _tidy(C_COMMENT.sub(lambda match: match[1] or " ", text)).encode()
            case ".json":
                return _described(json.loads(text)).encode()
            case ".yml":
                return _described(yaml_loaders.load(text)).encode()
            case ".patch":
                # What comes before the first file of a patch is its message.
                return text[text.find("\n--- ") :].encode()
            case _ if (
                text.startswith("#!")
                or file.suffix == ".sh"
                or file.name in ("Makefile", "Kbuild", "config")
            ):
                return _shell(text).encode()
    except (ValueError, SyntaxError, tokenize.TokenError, TypeError, RecursionError):
        pass
    return content


def acting_job(job: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a job (`Job.to_dict`) that its command line follows from."""
    # "setup" only where it is: records of before it existed keep their names.
    keys = ("name", "command", "command_stop", *(["setup"] if "setup" in job else []))
    return {**{key: job[key] for key in keys}, "tree": _tree(job["tree"])}


def acting_scenario(stored: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario in stored form without what is written for people.

    That is its description, its arguments' descriptions, and its functions' labels.
    """
    functions = []
    for function in stored["openbach_functions"]:
        functions.append({key: value for key, value in function.items() if key != "label"})
    # Without their descriptions, which are the values of this mapping.
    arguments = sorted(stored["arguments"])
    return {**stored, "description": None, "arguments": arguments, "openbach_functions": functions}


def _tree(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a tree of a job's arguments with only the keys that its command line follows from."""
    groups = []
    for group in tree.get("subcommand") or ():
        choices = [{"name": choice["name"], **_tree(choice)} for choice in group["choices"]]
        is_optional = bool(group.get("optional"))
        groups.append(
            {"group_name": group["group_name"], "optional": is_optional, "choices": choices}
        )
    return {
        "required": _arguments(tree.get("required")),
        "optional": _arguments(tree.get("optional")),
        "subcommand": groups,
    }


def _arguments(listed: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Return arguments of a job with only the keys in ARGUMENT."""
    arguments = []
    for argument in listed or ():
        arguments.append({key: argument.get(key) for key in ARGUMENT})
    return arguments


def _python(text: str) -> str:
    """Return Python code without comments and without texts that stand alone, like docstrings."""
    lines = text.splitlines(keepends=True)
    spans = [
        (token.start, token.end)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(text)):
        for body in (
            [getattr(node, "body", None)] if not isinstance(node, ast.Lambda | ast.IfExp) else []
        ):
            for sub in body or ():  # a text that stands alone: a docstring, or one below a name
                if (
                    isinstance(sub, ast.Expr)
                    and isinstance(sub.value, ast.Constant)
                    and isinstance(sub.value.value, str)
                ):
                    assert sub.end_lineno is not None and sub.end_col_offset is not None
                    # ast counts columns in bytes, tokenize in characters.
                    first, last = lines[sub.lineno - 1].encode(), lines[sub.end_lineno - 1].encode()
                    start = len(first[: sub.col_offset].decode())
                    end = len(last[: sub.end_col_offset].decode())
                    spans.append(((sub.lineno, start), (sub.end_lineno, end)))
    # From the end on, so that the places of the spans before stay valid.
    for (top, start), (bottom, end) in sorted(spans, reverse=True):
        kept = lines[top - 1][:start] + lines[bottom - 1][end:]
        lines[top - 1 : bottom] = [kept] + ["\n"] * (bottom - top)
    return _tidy("".join(lines))


def _shell(text: str) -> str:
    """Return a shell script without lines that are comments; those in a here-document stay."""
    kept, end = list[str](), ""
    for line in text.splitlines():
        if end:
            end = "" if line.strip() == end else end
        elif line.lstrip().startswith("#") and not line.startswith("#!"):
            continue
        elif heredoc := HEREDOC.search(line):
            end = heredoc[2]
        kept.append(line)
    return _tidy("\n".join(kept))


def _described(value: Any) -> str:
    """Return a description as JSON, without the keys that only people read."""
    own = (
        {key: content for key, content in value.items() if key not in WORDS}
        if isinstance(value, dict)
        else value
    )
    return json.dumps(own, sort_keys=True, default=str)


def _tidy(text: str) -> str:
    """Return a text without empty lines, and without spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())
