#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring up a real OpenBACH from a checkout in a guest, and run this project against it.

    make openbach OPENBACH=CHECKOUT

CHECKOUT is a clone of github.com/CNES/openbach at the tag openbach-2.7.0, with `apis` of
github.com/CNES/openbach-extra beside it (or --extra). The whole platform is in one guest, in
virtual time, behind the boundary of every run. What it is made of is fetched once, into the cache
(some 3 GB). What was done and what came of it is in results/openbach/report.md; pictures of the
web UI are beside it. Ends with 0 only if every check holds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import compare
import layer

from openbach_run.engine.virtual.engine import GUEST_START_NS
from openbach_run.errors import InputError, SetupError
from openbach_run.paths import CONTENT, REPOSITORY
from openbach_run.prompt.lab import _descendants as descendants

MEMORY_MB = 3072
LOOK_S = 0.2
MADE = ("project", "package", "sources", "orders")
"""Folders of the run's directory that are gone at its end."""
CODE = (*CONTENT, "tests/openbach")
"""What of this checkout is in the guest."""


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
        "--hold",
        action="store_true",
        help="leave the platform up afterwards, and take commands from standard input: of a shell"
        " in the guest, `on ENTITY COMMAND`, `picture [PATH]` (of the web UI, into the output)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the losses (default: 1)")
    parser.add_argument(
        "--size", default="", help="of each of part 9's 36 transfers (default: 30M)"
    )
    arguments = parser.parse_args()
    arguments.extra = arguments.extra or arguments.checkout.resolve().parent / "openbach-extra"
    for place, part in (
        (arguments.checkout, "src/controller/backend"),
        (arguments.extra, "apis/auditorium_scripts"),
    ):
        if not (place / part).is_dir():
            parser.error(f"{place} is no checkout: it has no {part}")
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


def progress(text: str, _: float, told: list[str] = [""]) -> None:  # noqa: B006
    """Print what is being made, once."""
    kind = text.split(":")[0]
    if told[0] != kind:
        told[0] = kind
        print(f"   {text}", flush=True)


def dpkg_status(packages: tuple[str, ...]) -> str:
    """What dpkg knows on a host where these packages (name_version_architecture) are installed."""
    form = (
        "Package: {}\nStatus: install ok installed\nMaintainer: Debian\nVersion: {}\n"
        "Architecture: {}\nDescription: of the guest\n\n"
    )
    return "".join(form.format(*one.split("_")) for one in packages)


def made(arguments: argparse.Namespace, directory: Path) -> tuple[layer.PlatformEngine, Path]:
    """The engine, ready, and OpenBACH's directory; the run's directory has what the guest wants."""
    for name in MADE:
        shutil.rmtree(directory / name, ignore_errors=True)
    for name in CODE:
        copy = shutil.copytree if (REPOSITORY / name).is_dir() else shutil.copy
        (directory / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        copy(REPOSITORY / name, directory / "project" / name)
    (directory / "orders").mkdir()
    make_package(directory / "package")
    packages = layer.packages_of(playbooks(directory / "package"))
    engine = layer.PlatformEngine(packages, directory / "sources")
    engine.prepare(progress)
    shutil.copytree(engine.code / "modules", directory / "project/modules")
    (directory / "dpkg_status").write_text(dpkg_status(engine.packages))
    only = [int(word) for word in arguments.only.split(",") if word]
    order = {"only": only, **{one: vars(arguments)[one] for one in ("seed", "size", "hold")}}
    (directory / "run.json").write_text(json.dumps(order))
    checkout, extra = arguments.checkout.resolve(), arguments.extra.resolve()
    return engine, layer.openbach(checkout, extra, engine.image.root, progress)


def boot(
    engine: layer.PlatformEngine, code: Path, directory: Path, arguments: argparse.Namespace
) -> int:
    """Run the guest to its end; its driver's exit code."""
    (directory / "exit_code").unlink(missing_ok=True)
    words = engine.jail.command(
        max(os.sched_getaffinity(0)), engine.image.root, code, directory, engine.kernel.executable,
        f"mem={MEMORY_MB}M", "quiet", "loglevel=4", "panic=-1",
        "root=/dev/root", "rootfstype=hostfs", "ro",
        "time-travel=inf-cpu", f"time-travel-start={GUEST_START_NS}", "seccomp=on", f"seed={arguments.seed}",
        "con=null", "con0=fd:3,fd:1",
        "init=/usr/bin/python3", "PYTHONHASHSEED=0", "--", "-SB", "/init.py",
    )  # fmt: skip
    guest = subprocess.Popen(words, env={}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    parts: list[list[str]] = []
    told = threading.Thread(target=tell, args=(guest, parts), daemon=True)
    told.start()
    try:
        if arguments.hold:
            hold(guest, directory / "orders")
        guest.wait()
    finally:
        guest.terminate()  # the keeper: it ends all that has come of the guest
        guest.wait()
        told.join()
    with (directory / "report.md").open("a") as report:
        head = "\n## When parts began\n\n| minutes | the platform's clock | part |\n| --- | --- | --- |"
        report.write("\n".join([head, *(f"| {' | '.join(one)} |" for one in parts)]) + "\n")
    left = directory / "exit_code"
    return int(left.read_text()) if left.exists() else 1


def tell(guest: subprocess.Popen[bytes], parts: list[list[str]]) -> None:
    """Print what the guest prints, after this machine's minutes; note when parts begin."""
    begun_s = time.monotonic()
    assert guest.stdout
    for line in guest.stdout:
        text, minutes = line.decode(errors="replace").rstrip(), (time.monotonic() - begun_s) / 60
        print(f"{minutes:6.1f} {text}", flush=True)
        if text.startswith("== "):
            parts.append([f"{minutes:.1f}", *text.split(maxsplit=2)[1:]])


def hold(guest: subprocess.Popen[bytes], orders: Path) -> None:
    """Hand each line of standard input to the guest, which stands still until it is there."""
    for number in itertools.count():
        while not (orders / f"{number}.done").exists():
            if guest.poll() is not None:
                return
            time.sleep(LOOK_S)
        send(guest.pid, signal.SIGSTOP)
        print("platform> ", end="", flush=True)
        line = sys.stdin.readline() or "exit"
        (orders / "next").write_text(line)
        (orders / "next").rename(orders / str(number))
        send(guest.pid, signal.SIGCONT)


def send(keeper: int, number: signal.Signals) -> None:
    """Send a signal to all processes of the guest that this keeper has started."""
    for pid in list(descendants(keeper)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def end(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    arguments = parse()
    directory = arguments.output.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    try:
        engine, openbach = made(arguments, directory)
        code = boot(engine, openbach, directory, arguments)
        return code if compare.compared(directory, arguments.seed) else 1
    except (InputError, SetupError) as error:
        print(f"openbach: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        for name in MADE:
            shutil.rmtree(directory / name, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
