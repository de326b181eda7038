# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run bundle -o FILE`: makes one file with which anyone can repeat the runs.

Makes one file that is openbach-run with all that a run needs: kernel, guest tree, programs,
this checkout's code and scenarios, Python and its packages. It runs on x86-64 Linux without
installation, compiler, network or root:

  ./FILE geo_loss

The same checkout and cache make the same file, to the byte. docs/bundle.md has the rest.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from openbach_run.bundle.content import content
from openbach_run.bundle.file import write
from openbach_run.bundle.sources import copy_sources
from openbach_run.commands.arguments import command_parser
from openbach_run.engine.virtual.debian import sha256_of
from openbach_run.errors import InputError, SetupError
from openbach_run.progress import Reporter

LEVELS = (1, 19)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("bundle", __doc__)
    add = cli.add_argument
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the file to write")
    text = (
        "with the programs of VPNs that no Debian package has; building them takes some 30"
        " minutes, once"
    )
    add("--programs", action="store_true", help=text)
    text = f"of compression by zstd, {LEVELS[0]} to {LEVELS[1]} (default 12)"
    levels = range(LEVELS[0], LEVELS[1] + 1)
    add("--level", type=int, default=12, metavar="N", choices=levels, help=text)
    text = (
        "copy the source packages of the kernel and of Debian's programs there, some GB, for who"
        " publishes a bundle"
    )
    add("--sources", type=Path, metavar="DIRECTORY", help=text)
    add("--quiet", action="store_true", help="no progress")
    return cli


def main(argv: list[str]) -> int:
    """Write the bundle; return the exit code. Raises InputError, SetupError."""
    arguments = parser().parse_args(argv)
    output: Path = arguments.output
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(f"-o {output}: should be a file in a directory that exists")
    directory: Path | None = arguments.sources
    if directory and not directory.is_dir():
        raise InputError(f"--sources {directory}: should be a directory")
    missing: list[str] = []
    with (
        Reporter(arguments.quiet) as reporter,
        content(reporter.show, built=arguments.programs) as parts,
    ):
        identity = write(
            output.absolute(), parts.start, parts.content, arguments.level, reporter.show
        )
        if directory:
            # While `parts` is open: it has a temporary directory.
            missing = copy_sources(directory.absolute(), parts.sources, parts.kernel, reporter.show)
    sums = output.with_name(f"{output.name}.sha256")
    sums.write_text(f"{sha256_of(output)}  {output.name}\n")
    print(
        f"{output}: {output.stat().st_size / 1e6:.0f} MB, {len(parts.content)} files, bundle"
        f" {identity}; {sums.name} has its checksum (sha256sum -c)"
    )
    if directory is None:
        return 0
    listed = directory / "missing"
    listed.unlink(missing_ok=True)  # of an earlier try
    if missing:
        listed.write_text("\n".join([*missing, ""]))
        # The bundle is whole; only its sources, which the GPL asks for, are not.
        raise SetupError(
            f"{len(missing)} of {len(parts.sources) + 1} files are not on the Debian mirror:"
            f" {listed} names them, with their SHA-256. Give another mirror"
            " (OPENBACH_RUN_DEBIAN_MIRROR), a snapshot of Debian say, and repeat the command"
        )
    return 0
