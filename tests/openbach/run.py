#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring up a real OpenBACH from a checkout, and run this project against it from outside.

It is in namespaces of this machine:

    make openbach OPENBACH=CHECKOUT

CHECKOUT is a clone of github.com/CNES/openbach at the tag openbach-2.7.0, with one of
github.com/CNES/openbach-extra beside it (or --extra). Needs root, for the namespaces, and Debian's
packages and PyPI, once. What was done and what came of it is in results/openbach/report.md;
pictures of the web UI are beside it. Ends with 0 only if every check holds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import layer

from openbach_run.engine.virtual.debian import ensure_tools
from openbach_run.errors import SetupError

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TOOLS = {
    "ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "chromium": "chromium",
    "tar": "tar", "/usr/bin/python3": "python3",
}  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="of OpenBACH, at the tag openbach-2.7.0")
    parser.add_argument(
        "--extra", type=Path, help="a checkout of openbach-extra (default: beside CHECKOUT)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=REPOSITORY / "results/openbach",
        help="where report and pictures go",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="PART,…",
        help="parts of the run, as the report's headings number them",
    )
    parser.add_argument(
        "--hold", action="store_true", help="leave the platform up afterwards, until Ctrl-C"
    )
    arguments = parser.parse_args()
    arguments.extra = arguments.extra or arguments.checkout.resolve().parent / "openbach-extra"
    for place, part in (
        (arguments.checkout, "src/controller/backend"),
        (arguments.extra, "apis/auditorium_scripts"),
    ):
        if not (place / part).is_dir():
            parser.error(f"{place} is no checkout: it has no {part}")
    if os.geteuid() != 0:
        parser.error("this needs root, for its namespaces")
    return arguments


def make_package(output: Path) -> None:
    """What an administrator imports."""
    words = [str(REPOSITORY / "openbach-run"), "package", "-o", str(output)]
    subprocess.run(words, check=True, cwd=REPOSITORY, stdout=subprocess.DEVNULL)


def playbooks(package: Path) -> list[str]:
    """The texts of the jobs' installing playbooks."""
    found = []
    for archive in sorted((package / "jobs-2.7").glob("*.tar.gz")):
        with tarfile.open(archive) as opened:
            file = opened.extractfile(f"install_{archive.name.removesuffix('.tar.gz')}.yml")
            assert file
            found.append(file.read().decode())
    return found


def inside(arguments: argparse.Namespace, layer_of: Path, temporary: Path) -> int:
    """Runs the rest in namespaces; its exit code. All that it starts ends with it."""
    words = [
        "unshare",
        "--mount",
        "--net",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        sys.executable,
        str(HERE / "inside.py"),
        str(arguments.checkout.resolve()),
        str(arguments.extra.resolve()),
        str(layer_of),
        str(temporary),
        str(arguments.output.resolve()),
        "--only",
        arguments.only,
    ]
    words += ["--hold"] if arguments.hold else []
    running = subprocess.Popen(words, cwd=REPOSITORY)
    try:
        return running.wait()
    finally:  # with unshare the first process inside ends, and the kernel ends all the others there
        running.kill()  # unshare takes no other signal
        running.wait()


def end(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    arguments = parse()
    ensure_tools(TOOLS)
    temporary = Path(tempfile.mkdtemp(prefix="ob-platform-"))
    try:
        make_package(temporary / "package")
        made = layer.made(
            arguments.checkout.resolve(),
            layer.packages_of(playbooks(temporary / "package")),
            temporary,
        )
        return inside(arguments, made, temporary)
    except SetupError as error:
        print(f"openbach: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
