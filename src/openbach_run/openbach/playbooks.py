# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks that OpenBACH includes to install and uninstall a job.

They are made from what its folder has: Debian packages (packages.txt), files, and programs
(files/PROGRAM/Makefile). A folder with playbooks of its own keeps them.
"""

from __future__ import annotations

from pathlib import Path

from openbach_run.openbach.job_content import programs_elsewhere
from openbach_run.openbach.job_folders import Package
from openbach_run.paths import REPOSITORY

BUILDING = ("gcc", "make", "libc6-dev")
"""Debian packages that programs are built with."""
PROGRAMS = "/usr/local/bin"
"""Folder for the programs that are built: it is on the PATH of an agent's jobs."""

ARCHIVE = "files.tar.gz"
"""Archive in files/ of a packed job, for its playbook to send."""

INSTALL = """\
---
# Installs the job's files, and the Debian packages and programs that it uses. Included by
# OpenBACH's role install_job.
"""
PACKAGES = """\
- name: Install the packages that {job} uses
  become: yes
  ansible.builtin.apt:
    name: [{packages}]
    state: present
    update_cache: yes
    install_recommends: no
  environment: "{{{{ openbach_proxies | default({{}}) }}}}"
"""
FILES = """\
- name: Make the directory of {job}
  become: yes
  ansible.builtin.file:
    path: /opt/openbach/agent/jobs/{job}
    state: directory
- name: Unpack the files of {job}
  become: yes
  ansible.builtin.unarchive:
    src: {archive}
    dest: /opt/openbach/agent/jobs/{job}/
"""
"""Tasks that send files in one piece: `copy` takes a second or more for each, and vpn has 100."""
PROGRAM = """\
- name: Build {program}
  become: yes
  ansible.builtin.command: make -C /opt/openbach/agent/jobs/{job}/{program} OUT={programs} {program}
"""
UNINSTALL = """\
---
# Removes the job's files and programs; the packages it used stay: others may need them.
- name: Remove the files of {job}
  become: yes
  ansible.builtin.file:
    path: "{{{{ item }}}}"
    state: absent
  loop: [{paths}]
"""


def playbooks(package: Package, checkout: Path = REPOSITORY) -> dict[str, str]:
    """Return the texts of install_JOB.yml and uninstall_JOB.yml, by the names of the files.

    A playbook that the job's folder has is returned as it is.
    """
    assert package.files is not None
    job = package.job.name
    built = sorted(
        [
            *(file.parent.name for file in package.files.glob("*/Makefile")),
            *(program.name for program in programs_elsewhere(package.files, checkout)),
        ]
    )
    packages = list(dict.fromkeys([*package.debian, *(BUILDING if built else ())]))
    install = INSTALL + (PACKAGES.format(job=job, packages=", ".join(packages)) if packages else "")
    install += FILES.format(job=job, archive=ARCHIVE)
    install += "".join(PROGRAM.format(job=job, program=name, programs=PROGRAMS) for name in built)
    paths = [f"/opt/openbach/agent/jobs/{job}", *(f"{PROGRAMS}/{name}" for name in built)]
    texts = {
        f"install_{job}.yml": install,
        f"uninstall_{job}.yml": UNINSTALL.format(job=job, paths=", ".join(paths)),
    }
    own = {name: package.files.parent / name for name in texts}
    return {
        name: own[name].read_text() if own[name].exists() else text for name, text in texts.items()
    }
