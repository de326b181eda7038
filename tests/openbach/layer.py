# SPDX-License-Identifier: GPL-3.0-or-later
"""What all hosts of the platform have in common.

Debian packages, the user openbach, and OpenBACH's Python environment.

It is a layer over this machine's own root directory: an overlay, whose changes are kept in the
cache. Nothing of this machine is changed by it. It is made anew when the packages of this machine
or what is asked for here change.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from openbach_run.errors import SetupError

CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "openbach-run/real-openbach"
)
PACKAGES = (
    "acl", "openssh-server", "postgresql", "python3-apt", "python3-dev", "python3-venv", "rsyslog",
    "sudo", "g++", "make",
)  # fmt: skip
"""Of the platform itself; those of our jobs are named by their playbooks."""
PYTHON = (
    "packaging", "ansible==12.1.0", "psycopg2-binary", "fuzzywuzzy", "python-Levenshtein", "django",
    "uwsgi", "apscheduler==3.7.0", "psutil==5.8.0", "PyYAML", "requests", "pandas", "matplotlib",
    "setuptools<81", "wheel",
)  # fmt: skip
"""As the roles install_controller and install_agent_Debian of the checkout name them; apscheduler
3.7 needs setuptools."""
ENVIRONMENT = "/opt/openbach/virtualenv"
BUILD = f"""
set -eu
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
export PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get -o DPkg::Lock::Timeout=600 update -qq
apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends $PACKAGES
useradd --create-home --shell /bin/bash openbach
echo 'openbach ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/passwordless_openbach
chmod 440 /etc/sudoers.d/passwordless_openbach
install -d -o openbach -g openbach /opt/openbach
su openbach -c '/usr/bin/python3 -m venv {ENVIRONMENT}'
chmod -R a+rX /tmp/build
cd /tmp/build/collect-agent
make
make install
cd /
eval {ENVIRONMENT}/bin/pip install --quiet $PYTHON
{ENVIRONMENT}/bin/pip install --quiet --no-deps --no-index /tmp/build/*.whl
cd /tmp/build/collect-agent/bindings
{ENVIRONMENT}/bin/pip install --quiet --no-deps --no-build-isolation .
ldconfig
chown -R openbach: /opt/openbach
rm -rf /tmp/build /var/lib/apt/lists/* /etc/apt/sources.list /etc/apt/sources.list.d/*
"""
"""The last line leaves apt nothing to ask: hosts of the platform have no way to a mirror, and what
jobs need is there."""
NAMED = re.compile(r"name: \[([^]]*)\]")
VARIABLE = re.compile(r'"[^"]*{{[^"]*"')


def packages_of(playbooks: Iterable[str]) -> list[str]:
    """Return the Debian packages that the texts of these playbooks install.

    Those that they can do without are left out.
    """
    found: set[str] = set()
    for text in playbooks:
        for listed in NAMED.findall(VARIABLE.sub("", text)):
            found.update(
                name for word in listed.split(",") if (name := word.strip()) and name != "dkms"
            )
    return sorted(found)


def made(checkout: Path, packages: Sequence[str], temporary: Path) -> Path:
    """The directory of the layer, made if it is not there. Raises SetupError."""
    wanted = sorted({*PACKAGES, *packages})
    said = [BUILD, *wanted, *PYTHON, Path("/var/lib/dpkg/status").read_text()]
    layer = CACHE / f"layer-{hashlib.sha256(chr(10).join(said).encode()).hexdigest()[:16]}"
    if layer.exists():
        return layer
    print(
        f"making {layer}: {len(wanted)} Debian packages, OpenBACH's Python environment (some 5"
        " minutes, once)",
        flush=True,
    )
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = CACHE / f"{layer.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    build = unfinished / "upper/tmp/build"
    build.mkdir(parents=True)
    (build.parent).chmod(0o1777)
    shutil.copytree(checkout / "src/agent/collect-agent", build / "collect-agent")
    for wheel in (checkout / "pip_mirror/python3").glob("*.whl"):
        shutil.copy(wheel, build)
    (unfinished / "work").mkdir()
    root = temporary / "layer"
    root.mkdir()
    script = "\n".join(
        [
            "set -eu",
            (
                "mount -t overlay overlay -o"
                f" lowerdir=/,upperdir={unfinished}/upper,workdir={unfinished}/work {root}"
            ),
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f'exec chroot {root} /bin/bash -c "$BUILD"',
        ]
    )
    log = CACHE / f"{layer.name}.log"
    with log.open("w") as said_by_it:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "/bin/bash", "-c", script],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=said_by_it,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "BUILD": BUILD,
                "PACKAGES": " ".join(wanted),
                "PYTHON": " ".join(f"'{one}'" for one in PYTHON),
            },
        )
    if done.returncode:
        raise SetupError(
            f"making the layer of the platform's hosts failed; {log} ends with:\n{_end_of(log)}"
        )
    shutil.rmtree(unfinished / "upper/tmp", ignore_errors=True)
    (unfinished / "upper").rename(layer)
    shutil.rmtree(unfinished)
    return layer


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
