# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds and installs, by DKMS, the modules of congestion controls that no kernel of Linux has.

They are those whose folder in congestion-controls has a Kbuild.

Run as root; needs the packages dkms and linux-headers-$(uname -r).
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

from openbach_jobs import profiles

SOURCES = Path("/usr/src")
CONFIGURATION = """\
PACKAGE_NAME="{module}"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="{module}"
DEST_MODULE_LOCATION[0]="/kernel/net/ipv4"
AUTOINSTALL="yes"
"""


def package(name: str) -> tuple[str, str]:
    """Return module and version of a profile.

    The version follows from the content of the folder.
    """
    digest = hashlib.sha256()
    for file in sorted(file for file in (profiles.FOLDERS / name).iterdir() if file.is_file()):
        digest.update(f"{file.name}\n".encode() + file.read_bytes())
    return f"tcp_{profiles.described(name)['algorithm']}", digest.hexdigest()[:12]


def add_source(name: str, sources: Path) -> str:
    """Return the profile's folder with a dkms.conf below `sources`, as DKMS wants it.

    MODULE/VERSION.
    """
    module, version = package(name)
    place = sources / f"{module}-{version}"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(profiles.FOLDERS / name, place)
    (place / "dkms.conf").write_text(CONFIGURATION.format(module=module, version=version))
    return f"{module}/{version}"


def dkms(*words: str) -> str:
    """Run DKMS, and return what it prints.

    If it fails the job ends with the compiler's log.
    """
    done = subprocess.run(
        ["dkms", *words], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        log = next(
            (
                Path(path)
                for path in re.findall(r"\S+make\.log", done.stdout)
                if Path(path).is_file()
            ),
            None,
        )
        sys.exit(f"dkms {' '.join(words)}:\n{done.stdout}{log.read_text() if log else ''}")
    return done.stdout


def install(name: str) -> None:
    """Install a module for the running kernel.

    With DKMS it is installed for each later kernel, too. It replaces an earlier version.
    """
    module, version = package(name)
    for old in set(
        re.findall(rf"^{re.escape(module)}/(\w+)", dkms("status", module), re.MULTILINE)
    ) - {version}:
        dkms("remove", f"{module}/{old}", "--all")
    if not re.search(rf"^{module}/{version},.*: installed", dkms("status", module), re.MULTILINE):
        dkms("install", add_source(name, SOURCES))
    print(f"{module} {version} is installed")


def main() -> None:
    """Build and install the modules of the profiles on the command line, by default of all."""
    with_module = [
        name for name in profiles.names() if (profiles.FOLDERS / name / "Kbuild").exists()
    ]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("profile", nargs="*", help=f"default: {' '.join(with_module)}")
    names = parser.parse_args().profile
    if wrong := sorted(set(names) - set(with_module)):
        parser.error(f"{wrong[0]} has no module; those with one are {', '.join(with_module)}")
    if shutil.which("dkms") is None:
        sys.exit(
            "there is no dkms; install it with: sudo apt-get install dkms linux-headers-$(uname -r)"
        )
    for name in names or with_module:
        install(name)


if __name__ == "__main__":
    main()
