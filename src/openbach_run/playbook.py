# SPDX-License-Identifier: GPL-3.0-or-later
"""The installation of a job by its playbook, install_JOB.yml, as far as a guest can have it.

It comes to four things:

    debian      packages of apt, and of pip where Debian has the module as python3-MODULE
    steps       what makes files on a host (file, copy, template, lineinfile, command, shell, …),
                as commands for a shell
    refused     packages that no Debian repository has: without them the job cannot do its work
    left_out    what fetches from elsewhere, or configures a machine and not the job

Playbooks are Ansible's; what is read here of their language is what jobs use: names in lists, loops
and variables, conditions on the distribution, blocks with a rescue. A job with a packages.txt says
itself what it needs, and its playbook is not read.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from openbach_run.errors import InputError
from openbach_run.yaml_files import read_yaml

FACTS = {
    "ansible_distribution": "Debian", "ansible_distribution_release": "trixie",
    "ansible_distribution_version": "13", "ansible_distribution_major_version": "13",
    "ansible_os_family": "Debian", "ansible_system": "Linux", "ansible_architecture": "x86_64",
    "ansible_kernel": "guest",
}  # fmt: skip
"""Facts of the machine that a playbook asks for → the guest's answers."""
INSTEAD = {
    "d-itg-openbach": "d-itg",
    "iperf3-openbach": "iperf3",
    "netcat": "netcat-openbsd",
    "python3-pyaml": "python3-yaml",
    "python3-pyopenssl": "python3-openssl",
    "python3-pyyaml": "python3-yaml",
    "python3-python-iptables": "python3-iptables",
}
"""OpenBACH's own builds and names of PyPI → the packages of Debian that have the same program or
module."""
AGENT_HAS = {
    "apscheduler": "python3-apscheduler", "dateutil": "python3-dateutil",
    "matplotlib": "python3-matplotlib", "numpy": "python3-numpy", "pandas": "python3-pandas",
    "pkg_resources": "python3-pkg-resources", "psutil": "python3-psutil",
    "requests": "python3-requests", "yaml": "python3-yaml",
}  # fmt: skip
"""Python modules that every agent has in its virtualenv, so that no playbook installs them → their
packages."""
WITH = {"python3-iptables": "libc-bin"}
"""Packages → what every Debian has beside them: python3-iptables finds its libraries by
ldconfig."""
MODPROBE = "echo /usr/sbin/modprobe > /proc/sys/kernel/modprobe"
"""Command that tells the kernel what to call for a module, which is nothing in a guest."""
AGENT_PACKAGES = ("iproute2", "procps", "iputils-ping")
"""Packages of a machine with an agent, whatever the job."""
APT = ("apt", "package", "aptitude")
PYTHON_PACKAGES = ("pip",)
ELSEWHERE = (
    "get_url", "git", "apt_key", "apt_repository", "deb822_repository", "uri", "npm", "gem", "snap",
)  # fmt: skip
OF_THE_MACHINE = (
    "set_fact", "debug", "register", "package_facts", "setup", "find", "stat", "assert", "fail",
    "meta",
)  # fmt: skip
SERVICES = ("systemd", "service", "systemd_service", "sysvinit")
NO_TASK = {
    "name", "become", "become_user", "environment", "remote_user", "register", "args", "vars",
    "when", "tags", "with_items", "loop", "loop_control", "ignore_errors", "changed_when",
    "failed_when", "notify", "delegate_to", "block", "rescue", "always", "no_log", "until",
    "retries", "delay", "check_mode", "run_once",
}  # fmt: skip
"""Keys of a task that are no module."""
STATE = "sh /usr/local/lib/openbach-run/state"
"""Makes what the guest tree's packages have in directories that begin empty on a host."""
REMEDY = (
    "A packages.txt beside the job's files/, with the packages of Debian that it needs (or none),"
    " stands for its playbook"
)
JOB_DIRECTORY = "/opt/openbach/agent/jobs/"
IMPORT = re.compile(r"^\s*(?:import|from)\s+([A-Za-z_]\w*)", re.MULTILINE)
EXPRESSION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
VERSION = re.compile(r"\s*(\[.*?\])?\s*[=<>!~].*$")
KEY_VALUE = re.compile(r"(\w+)=")


class Unknown(Exception):
    """A value that only a real installation knows; the text is the expression."""


@dataclass(frozen=True)
class Step:
    """A command of a task, for a shell on the host."""

    task: str
    command: str


@dataclass
class Installation:
    """The installation that a playbook comes to in a guest."""

    job: str
    debian: dict[str, str] = field(default_factory=dict)
    """Package → the task that wants it, in words."""
    steps: list[Step] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def installation_of(files: Path) -> Installation | None:
    """Return the installation of the job with these `files`; None if no playbook is beside them.

    Raises InputError for a malformed one.
    """
    playbook = files.parent / f"install_{files.parent.name}.yml"
    if not playbook.is_file():
        return None
    stamp = playbook.stat().st_mtime_ns, tuple(sorted(file.name for file in files.glob("*.py")))
    return _read(files, playbook, stamp)


@lru_cache(maxsize=1024)
def _read(files: Path, playbook: Path, stamp: object) -> Installation:
    """Return the installation of a playbook. Raises InputError for a malformed one.

    `stamp` is only a key of the cache: it changes with the playbook and with the job's programs.
    """
    job = files.parent.name
    result = Installation(job, steps=[Step("directories that packages have", STATE)])
    tasks = read_yaml(playbook)
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise InputError(
            f"{playbook}: should be a list of tasks; a packages.txt beside files/ would stand"
            " for it"
        )
    _tasks(
        tasks, {**FACTS, "job_name": job, "openbach_proxies": {}, "openbach_proxy_env": {}}, result
    )
    for name in AGENT_PACKAGES:
        result.debian.setdefault(name, "what every agent has")
    for module in sorted(_imported(files)):
        result.debian.setdefault(AGENT_HAS[module], f"import {module}, which every agent has")
    for name, beside in WITH.items():
        if name in result.debian:
            result.debian.setdefault(beside, f"beside {name}")
            result.steps.insert(0, Step(f"what {name} looks for", MODPROBE))
    return result


def _imported(files: Path) -> set[str]:
    """Return the modules that the job's programs import and every agent has."""
    # By the text and not by Python's parser: a job may be written for another version of Python.
    texts = [file.read_text(errors="replace") for file in sorted(files.glob("*.py"))]
    return {name for text in texts for name in IMPORT.findall(text)} & AGENT_HAS.keys()


def _tasks(tasks: Iterable[Mapping[str, Any]], known: dict[str, Any], result: Installation) -> None:
    """Put what tasks come to into `result`; `known` are the values of the playbook's variables."""
    for task in tasks:
        own = task.get("vars")
        values = {**known, **(own if isinstance(own, dict) else {})}
        if not _applies(task.get("when"), values):
            continue
        # A rescue is read, too: it installs under another name what the block could not.
        for key in ("block", "rescue", "always"):
            if isinstance(task.get(key), list):
                _tasks([inner for inner in task[key] if isinstance(inner, dict)], values, result)
        for key in (key for key in task if isinstance(key, str) and not _is_keyword(key)):
            short = key.rpartition(".")[2]
            title = f"the task {task.get('name', short)!r}"
            try:
                _task(key, task, values, known, result, title)
            except Unknown as unknown:
                if short in APT and "deb" in (arguments := _arguments(task[key])):
                    result.refused.append(
                        f"{title} installs {arguments['deb']}, which is no package of Debian"
                    )
                    continue
                result.left_out.append(f"{title} ({short}): {unknown} is not known before it runs")
            # A task of another shape is left out and said: the job may work without it.
            except (TypeError, ValueError, AttributeError, KeyError) as error:
                result.left_out.append(f"{title} ({short}) is not understood: {error}")


def _is_keyword(key: str) -> bool:
    """Return whether a key of a task is Ansible's own, and names no module."""
    return key in NO_TASK or key.startswith("with_")


def _task(
    key: str,
    task: Mapping[str, Any],
    values: dict[str, Any],
    known: dict[str, Any],
    result: Installation,
    title: str,
) -> None:
    """Put what a module of a task comes to into `result`. Raises Unknown; others if malformed."""
    module = key.rpartition(".")[2]
    if module == "set_fact":
        known.update(task[key] if isinstance(task[key], dict) else {})
        return
    if module in OF_THE_MACHINE:
        return
    items = task.get("with_items", task.get("loop", [None]))
    items = _rendered(items, values)
    for item in items if isinstance(items, list) else [items]:
        here = {**values, "item": item}
        own = _arguments(_rendered(task[key], here))
        own |= _arguments(_rendered(task.get("args") or {}, here))
        if module in APT:
            _apt(own, result, title)
        elif module in PYTHON_PACKAGES:
            _pip(own, result, title)
        elif module in ELSEWHERE or "://" in str(own.get("src", "")):
            result.left_out.append(f"{title} ({module}): a guest has no network but its own")
        elif module in COMMANDS:
            own["known"] = here
            result.steps += [Step(title, cmd) for cmd in COMMANDS[module](own, result.job) if cmd]
        elif module not in SERVICES:
            result.left_out.append(f"{title}: the module {module} is not known here")


def _apt(own: Mapping[str, Any], result: Installation, title: str) -> None:
    """Note the packages that a task of apt installs."""
    if own.get("state") == "absent":
        return
    if deb := own.get("deb"):
        result.refused.append(f"{title} installs {deb}, which is no package of Debian")
    names = own.get("name", own.get("pkg", own.get("package", [])))
    for name in _names(names):
        if not name.startswith("linux-"):  # the guest has a kernel of its own
            result.debian.setdefault(INSTEAD.get(name, name), title)


def _pip(own: Mapping[str, Any], result: Installation, title: str) -> None:
    """Note the packages of Debian for the modules that a task of pip installs."""
    for name in _names(own.get("name", [])):
        package = f"python3-{name.lower().replace('_', '-')}"
        result.debian.setdefault(INSTEAD.get(package, package), f"{title}, by pip")


def _names(value: Any) -> list[str]:
    """Return the names of packages, without versions, however they are listed."""
    listed = value if isinstance(value, list) else str(value).split(",")
    names = [VERSION.sub("", str(name)).strip() for name in listed]
    return [name for name in names if name]


def _arguments(value: Any) -> dict[str, Any]:
    """Return the arguments of a module, from a mapping or from `key=value …` in a text.

    What is no `key=value` is the command, at "".
    """
    if isinstance(value, dict):
        return {str(key): argument for key, argument in value.items()}
    arguments: dict[str, Any] = {}
    rest = []
    try:
        words = (
            shlex.split(str(value))
            if KEY_VALUE.match(str(value)) or " chdir=" in str(value)
            else []
        )
    except ValueError:
        words = []
    for word in words:
        key, equals, content = word.partition("=")
        if equals and key.isidentifier():
            arguments[key] = content
        else:
            rest.append(word)
    return {**arguments, "": " ".join(rest) if words else str(value)}


# Tasks that make files, as commands


def _file(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command of the module file."""
    path = str(own.get("path", own.get("dest", own.get("name", ""))))
    match own.get("state", "file"):
        case "directory":
            yield (
                f"mkdir -p {shlex.quote(path)}" if not path.startswith(JOB_DIRECTORY + job) else ""
            )
        case "link":
            yield f"ln -sfn {shlex.quote(str(own.get('src')))} {shlex.quote(path)}"
        case "touch":
            yield f"touch {shlex.quote(path)}"
        case "absent":
            yield f"rm -rf {shlex.quote(path)}"


def _copy(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the commands of the module copy.

    The job's folder is there whole; what goes elsewhere, or by another name, is copied.
    """
    dest, src = str(own.get("dest", "")), str(own.get("src", ""))
    if "content" in own:
        content = f"printf %s {shlex.quote(str(own['content']))} > {shlex.quote(dest)}"
        yield f"mkdir -p {shlex.quote(str(Path(dest).parent))} && {content}"
        return
    name = src.removeprefix("files/")
    target = dest + Path(name).name if dest.endswith("/") else dest
    if target.rstrip("/") in (f"{JOB_DIRECTORY}{job}/{name.rstrip('/')}", f"{JOB_DIRECTORY}{job}"):
        return
    if f"{target}/{Path(name).name}" == f"{JOB_DIRECTORY}{job}/{name}":
        return
    source = src if src.startswith("/") else f"{JOB_DIRECTORY}{job}/{name}"
    above = dest if dest.endswith("/") else str(Path(dest).parent)
    yield f"mkdir -p {shlex.quote(above)} && cp -RL {shlex.quote(source)} {shlex.quote(dest)}"


def _template(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Take a template like a copy, with the variables in it that are known filled in."""
    edits = [
        f"-e {shlex.quote(f's|{{{{ *{name} *}}}}|{value}|g')}"
        for name, value in sorted(own["known"].items())
        if isinstance(value, str | int) and "|" not in str(value)
    ]
    for copied in _copy(own, job):
        yield f"{copied} && sed -i {' '.join(edits)} {shlex.quote(str(own['dest']))}"


def _command(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command of the modules command and shell."""
    command = str(own.get("cmd", own.get("", ""))).strip()
    if "argv" in own:
        command = shlex.join(map(str, own["argv"]))
    if creates := own.get("creates"):
        command = f"test -e {shlex.quote(str(creates))} || {{ {command}; }}"
    yield f"cd {shlex.quote(str(own['chdir']))} && {command}" if "chdir" in own else command


def _line(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command of the module lineinfile, which adds a line once."""
    path, line = (shlex.quote(str(own.get(key, ""))) for key in ("path", "line"))
    if "line" in own and own.get("state", "present") == "present":
        yield f"grep -qxF -- {line} {path} || printf '%s\\n' {line} >> {path}"


def _apache_module(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command that switches a module of Apache on or off."""
    program = "a2dismod" if own.get("state") == "absent" else "a2enmod"
    yield f"{program} -q {shlex.quote(str(own.get('name')))}"


def _key(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command that makes a private key."""
    path = shlex.quote(str(own.get("path", "")))
    yield f"mkdir -p $(dirname {path}) && openssl genrsa -out {path} 2048"


def _certificate(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command that makes a certificate, signed by its own key."""
    path, key = (shlex.quote(str(own.get(name, ""))) for name in ("path", "privatekey_path"))
    yield (
        f"mkdir -p $(dirname {path}) && openssl req -x509 -new -key {key} -subj /CN={job} -days"
        f" 3650 -out {path}"
    )


def _unpack(own: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield the command that unpacks an archive of the job."""
    source, place = str(own.get("src", "")), shlex.quote(str(own.get("dest", "")))
    file = (
        source
        if source.startswith("/")
        else f"{JOB_DIRECTORY}{job}/{source.removeprefix('files/')}"
    )
    yield f"mkdir -p {place} && tar -C {place} -xf {shlex.quote(file)}"


COMMANDS: dict[str, Callable[[Mapping[str, Any], str], Iterator[str]]] = {
    "file": _file, "copy": _copy, "template": _template, "command": _command, "shell": _command,
    "raw": _command, "synchronize": _copy, "openbach_synchronize": _copy, "lineinfile": _line,
    "apache2_module": _apache_module, "openssl_privatekey": _key,
    "openssl_certificate": _certificate, "x509_certificate": _certificate,
    "openssl_csr": lambda own, job: iter(()), "unarchive": _unpack,
}  # fmt: skip
"""Name of a module → what yields its commands."""


# Ansible's expressions, as far as jobs use them


def _applies(when: Any, values: Mapping[str, Any]) -> bool:
    """Return whether a task is for the guest.

    What only a real installation knows counts as true.
    """
    conditions = when if isinstance(when, list) else [when]
    for condition in conditions:
        try:
            if condition is not None and not _value(str(condition), values):
                return False
        except Unknown:
            continue
    return True


def _rendered(value: Any, values: Mapping[str, Any]) -> Any:
    """Return the value with its {{ expressions }} filled in. Raises Unknown."""
    if isinstance(value, list):
        return [_rendered(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _rendered(item, values) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    # An expression alone keeps its type: a list stays one to loop over.
    if (alone := EXPRESSION.fullmatch(value.strip())) and value.count("{{") == 1:
        return _rendered(_value(alone[1], values), values)
    return EXPRESSION.sub(lambda match: str(_rendered(_value(match[1], values), values)), value)


def _value(expression: str, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression that Jinja and Python both have.

    These are names, attributes, comparisons and `a if b else c`. Raises Unknown.
    """
    try:
        return _evaluated(ast.parse(expression.strip(), mode="eval").body, values)
    except (SyntaxError, ValueError, RecursionError, TypeError):
        raise Unknown(expression.strip()) from None


def _evaluated(node: ast.expr, values: Mapping[str, Any]) -> Any:
    """Return the value of a parsed expression. Raises Unknown for what is not known here."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.Attribute(value=inner, attr=name):
            inside = _evaluated(inner, values)
            if isinstance(inside, dict) and name in inside:
                return inside[name]
        case ast.List(elts=several) | ast.Tuple(elts=several):
            return [_evaluated(item, values) for item in several]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _evaluated(body if _evaluated(test, values) else orelse, values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluated(operand, values)
        case ast.BoolOp(op=ast.And(), values=several):
            return all(_evaluated(operand, values) for operand in several)
        case ast.BoolOp(op=ast.Or(), values=several):
            return any(_evaluated(operand, values) for operand in several)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(op, _evaluated(left, values), _evaluated(right, values))
    raise Unknown(ast.unparse(node))


def _compared(op: ast.cmpop, left: Any, right: Any) -> bool:
    """Return the result of a comparison. Raises Unknown for one that jobs do not use."""
    match op:
        case ast.Eq():
            return bool(left == right)
        case ast.NotEq():
            return bool(left != right)
        case ast.In():
            return left in right
        case ast.NotIn():
            return left not in right
    raise Unknown("a comparison")
