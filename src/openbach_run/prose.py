# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a file acts, without the words for people: an edit of a comment, a docstring, a description or a README makes no
finished run stale."""

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
    {"description", "source", "version", "licence", "runs_in", "ciphers", "keys", "multipath", "post_quantum", "tested"}
)
"""Keys of a folder's description (vpn.json, profile.json, a satellite's YAML) that only people read."""
FOR_PEOPLE = (".md", ".help", ".8")
"""Files that no program reads."""
ARGUMENT = ("name", "type", "count", "flag", "repeatable")
C_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?\*/', re.DOTALL)
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")


@cache
def way() -> str:
    """Hash of this way to see what acts."""
    return hashlib.sha256(Path(__file__).read_bytes() + sys.version.encode()).hexdigest()


def acting(file: Path) -> bytes:
    """The file's content without words. What is not understood counts whole."""
    return _acting(file.name, file.read_bytes())


@lru_cache(maxsize=1024)
def _acting(name: str, content: bytes) -> bytes:
    """Kept: the cells of a campaign have most files in common."""
    from openbach_run import yaml_loaders  # its import takes longer than a command that has the hash of all this

    try:
        text = content.decode()
        match (file := PurePath(name)).suffix:
            case ".py":
                return _python(text).encode()
            case ".c" | ".h" | ".S":
                return _tidy(C_COMMENT.sub(lambda match: match[1] or " ", text)).encode()
            case ".json":
                return _described(json.loads(text)).encode()
            case ".yml":
                return _described(yaml_loaders.load(text)).encode()
            case ".patch":
                return text[text.find("\n--- ") :].encode()
            case _ if text.startswith("#!") or file.suffix == ".sh" or file.name in ("Makefile", "Kbuild", "config"):
                return _shell(text).encode()
    except (ValueError, SyntaxError, tokenize.TokenError, TypeError, RecursionError):
        pass
    return content


def acting_job(job: dict[str, Any]) -> dict[str, Any]:
    """Of a job (`Job.to_dict`): what its command line follows from."""
    keys = ("name", "command", "command_stop", *(["setup"] if "setup" in job else []))
    return {**{key: job[key] for key in keys}, "tree": _tree(job["tree"])}


def acting_scenario(stored: dict[str, Any]) -> dict[str, Any]:
    """Of a scenario as it is stored: without its description, those of its arguments, and the labels of its functions."""
    functions = [{key: value for key, value in one.items() if key != "label"} for one in stored["openbach_functions"]]
    arguments = sorted(stored["arguments"])
    return {**stored, "description": None, "arguments": arguments, "openbach_functions": functions}


def _tree(tree: dict[str, Any]) -> dict[str, Any]:
    return {
        **{kind: [{key: one.get(key) for key in ARGUMENT} for one in tree.get(kind) or ()]
           for kind in ("required", "optional")},
        "subcommand": [
            {
                "group_name": group["group_name"],
                "optional": bool(group.get("optional")),
                "choices": [{"name": one["name"], **_tree(one)} for one in group["choices"]],
            }
            for group in tree.get("subcommand") or ()
        ],
    }  # fmt: skip


def _python(text: str) -> str:
    lines = text.splitlines(keepends=True)
    spans = [
        (token.start, token.end)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    for node in ast.walk(ast.parse(text)):
        for body in [getattr(node, "body", None)] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            for one in body or ():  # a text that stands alone: a docstring, or one below a name
                if (
                    isinstance(one, ast.Expr)
                    and isinstance(one.value, ast.Constant)
                    and isinstance(one.value.value, str)
                ):
                    assert one.end_lineno is not None and one.end_col_offset is not None
                    start, end = (len(lines[line - 1].encode()[:column].decode()) for line, column in (
                        (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)))  # fmt: skip
                    spans.append(((one.lineno, start), (one.end_lineno, end)))
    for (first, start), (last, end) in sorted(spans, reverse=True):
        kept = lines[first - 1][:start] + lines[last - 1][end:]
        lines[first - 1 : last] = [kept] + ["\n"] * (last - first)
    return _tidy("".join(lines))


def _shell(text: str) -> str:
    """Without lines that are comments, those in a here-document apart."""
    kept, end = list[str](), ""
    for line in text.splitlines():
        if end:
            end = "" if line.strip() == end else end
        elif line.lstrip().startswith("#") and not line.startswith("#!"):
            continue
        elif found := HEREDOC.search(line):
            end = found[2]
        kept.append(line)
    return _tidy("\n".join(kept))


def _described(value: Any) -> str:
    own = {key: one for key, one in value.items() if key not in WORDS} if isinstance(value, dict) else value
    return json.dumps(own, sort_keys=True, default=str)


def _tidy(text: str) -> str:
    """Without empty lines and spaces at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())
