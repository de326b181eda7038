# SPDX-License-Identifier: GPL-3.0-or-later
"""What a guest has of what a job's playbook installs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from openbach_run.catalog import packages_of
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import check_installed, left_out, load_packages
from openbach_run.playbook import Installation, installation_of

YAML = """\
general: {name: toy, description: A toy, job_version: '1.0', keywords: [toy], persistent: no}
platform_configuration: {command: /opt/openbach/virtualenv/bin/python3 /opt/openbach/agent/jobs/toy/toy.py}
arguments: {}
statistics: []
"""


def job_with(place: Path, playbook: str, program: str = "import argparse\n") -> Path:
    files = place / "toy/files"
    files.mkdir(parents=True)
    (files / "toy.yml").write_text(YAML)
    (files / "toy.py").write_text(program)
    (files.parent / "install_toy.yml").write_text(f"---\n{playbook}")
    return files


def read(place: Path, playbook: str, program: str = "import argparse\n") -> Installation:
    found = installation_of(job_with(place, playbook, program))
    assert found
    return found


@pytest.mark.parametrize(
    ("task", "packages"),
    {
        "apt: name=socat state=present": {"socat"},
        "apt: {name: [socat, hping3]}": {"socat", "hping3"},
        "ansible.builtin.apt: {pkg: 'socat, hping3'}": {"socat", "hping3"},
        "apt: {name: 'nuttcp=8.2.2-2'}": {"nuttcp"},
        "apt: {name: '{{ item }}'}\n  with_items: [socat, hping3]": {"socat", "hping3"},
        "apt: {name: '{{ item.name }}'}\n  loop: [{name: socat}]": {"socat"},
        "apt: {name: '{{ wanted }}'}\n  vars: {wanted: [socat]}": {"socat"},
        "apt: {name: socat}\n  when: ansible_distribution == 'Ubuntu'": set(),
        "apt: {name: socat}\n  when: ansible_distribution_release in ['bookworm', 'trixie']": {
            "socat"
        },
        "apt: {name: socat}\n  when: something.stdout == '0'": {"socat"},
        "apt: {name: socat, state: absent}": set(),
        "apt: {name: iperf3-openbach}": {"iperf3"},
        (
            "apt: {name: \"{{ 'ntp' if ansible_distribution_release not in ['trixie'] else"
            " 'ntpsec' }}\"}"
        ): {"ntpsec"},
        "pip: {name: pyftpdlib, state: latest}": {"python3-pyftpdlib"},
        "pip: {name: ['blinker==1.7.0', python-iptables]}": {
            "python3-blinker",
            "python3-iptables",
            "libc-bin",
        },
        "block:\n  - apt: {name: [netcat]}\n  rescue:\n  - apt: {name: [netcat-openbsd]}": {
            "netcat-openbsd"
        },
    }.items(),
)
def test_the_packages_of_a_task(tmp_path: Path, task: str, packages: set[str]) -> None:
    found = read(tmp_path, f"- name: Install it\n  {task}\n")
    assert set(found.debian) - {"iproute2", "procps", "iputils-ping"} == packages
    assert not found.refused


def test_an_import_of_what_every_agent_has_is_a_package(tmp_path: Path) -> None:
    found = read(
        tmp_path, "- debug: {msg: x}\n", "from apscheduler.x import y\nimport collect_agent\n"
    )
    assert "python3-apscheduler" in found.debian


@pytest.mark.parametrize(
    ("task", "command"),
    {
        "shell: python3 backup.py": "python3 backup.py",
        (
            "command: fallocate -l {{ item.size }} /srv/{{ item.size }}\n  with_items: [{size: 1M}]"
        ): "fallocate -l 1M /srv/1M",
        "shell: '{{ item }}'\n  args: {chdir: /tmp/x}\n  with_items: ['make']": "cd /tmp/x && make",
        "file: {path: /var/www/x, state: directory}": "mkdir -p /var/www/x",
        "copy: {src: files/a.conf, dest: /etc/a.conf}": "mkdir -p /etc && cp -RL /opt/openbach/agent/jobs/toy/a.conf /etc/a.conf",
    }.items(),
)
def test_what_a_task_does_on_a_host_is_a_command(tmp_path: Path, task: str, command: str) -> None:
    found = read(tmp_path, f"- name: Do it\n  {task}\n")
    assert found.steps[-1].command == command
    assert "Do it" in found.steps[-1].task


def test_what_is_copied_to_the_jobs_own_folder_is_there(tmp_path: Path) -> None:
    task = (
        "copy: src={{ item.file }} dest=/opt/openbach/agent/jobs/{{ job_name }}/ mode={{"
        " item.mode }}"
    )
    found = read(tmp_path, f"- {task}\n  with_items: [{{file: toy.py, mode: '0755'}}]\n")
    assert len(found.steps) == 1


def test_a_package_from_elsewhere_is_refused_with_the_task_and_the_remedy(tmp_path: Path) -> None:
    job_with(
        tmp_path, "- name: Get Firefox\n  apt: {deb: 'https://example.org/{{ arch.stdout }}.deb'}\n"
    )
    packages = load_packages([tmp_path])
    with pytest.raises(
        InputError,
        match=r"the job toy: its playbook install_toy.yml, the task 'Get Firefox'.*packages\.txt",
    ):
        check_installed(["toy"], packages)


def test_what_is_not_done_is_said(tmp_path: Path) -> None:
    job_with(
        tmp_path, "- name: Clone it\n  git: {repo: 'https://example.org/x.git', dest: /tmp/x}\n"
    )
    (said,) = left_out(["toy"], load_packages([tmp_path]))
    assert "'Clone it'" in said


def test_a_packages_txt_stands_for_the_playbook(tmp_path: Path) -> None:
    files = job_with(tmp_path, "- name: Get Firefox\n  apt: {deb: 'https://example.org/f.deb'}\n")
    (files.parent / "packages.txt").write_text("socat\n")
    packages = load_packages([tmp_path])
    check_installed(["toy"], packages)
    assert packages_of(files) == ["socat"]
    assert not packages["toy"].job.setup


def test_a_malformed_playbook_is_said_with_its_file(tmp_path: Path) -> None:
    files = job_with(tmp_path, "apt: socat\n")
    with pytest.raises(InputError, match=r"install_toy\.yml: should be a list of tasks"):
        packages_of(files)


@pytest.mark.parametrize(
    "task",
    [
        *("apt: {name: {a: 1}}", "apt:", "vars: [1]", "copy: 7", "shell: [1]", "when: '(('"),
        *("block: x", "file: {state: {}}"),
    ],
)
def test_what_is_no_task_of_ansible_makes_no_traceback(tmp_path: Path, task: str) -> None:
    files = job_with(tmp_path, f"- name: Odd\n  {task}\n")
    with suppress(InputError):
        packages_of(files)


def test_a_package_file_written_in_one_line_is_refused_too(tmp_path: Path) -> None:
    """`apt: deb=…` is a text: its file was looked up as in a mapping, which was a traceback."""
    (said,) = read(tmp_path, "- name: Get it\n  apt: deb=/tmp/{{arch}}.deb\n").refused
    assert said == "the task 'Get it' installs /tmp/{{arch}}.deb, which is no package of Debian"
