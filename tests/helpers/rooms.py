# SPDX-License-Identifier: GPL-3.0-or-later
"""The rooms of src/openbach_run: which there are, and what their modules import."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from openbach_run.paths import REPOSITORY

SOURCE = REPOSITORY / "src"
ROOMS = (
    "errors", "clock", "paths", "version", "progress", "json_files", "yaml_loaders", "yaml_files",
    "units", "drawing", "semantic_hash", "playbook", "catalog", "topology", "openbach", "results",
    "own_page", "link_checks", "guest", "engine", "campaign", "prompt", "report", "web", "bundle", "commands",
    "api",
)  # fmt: skip
"""From the first to the last; `python -m openbach_run` and the package itself stand outside."""
MODULES = {
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in SOURCE.glob("openbach_run/**/*.py")
}


def imported(module: str) -> Iterator[str]:
    """Yield the modules of ours that a module imports, at its top or later."""
    file = MODULES[module]
    package = module.split(".") if file.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            for alias in node.names:
                found = f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base
                yield from {found} & MODULES.keys()
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def room(module: str) -> str:
    """Return the room of a module: the second part of its name."""
    return module.split(".")[1]


PATH_METHODS = {"append", "extend", "insert"}


def changes_sys_path(tree: ast.AST) -> bool:
    """Return whether a program assigns to `sys.path` or to a part of it, or adds to it."""

    def is_path(node: ast.AST) -> bool:
        return ast.unparse(node) == "sys.path"

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in PATH_METHODS and is_path(node.func.value):
                return True
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            changed = node.value if isinstance(node, ast.Subscript) else node
            if is_path(changed):
                return True
    return False
