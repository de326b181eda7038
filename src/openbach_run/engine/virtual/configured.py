# SPDX-License-Identifier: GPL-3.0-or-later
"""Configuration that Debian gives to packages at their installation, without their scripts.

Maintainer scripts want root, and do what depends on the machine. What of them matters in a guest is
said in a few forms, which are read here: alternatives (`update-alternatives --install`), users and
groups (`adduser --system`, sysusers.d, the lists of base-passwd). The result follows from the
packages alone. User ids follow from the names alone: of two trees with different packages, both
give a user the same id.
"""

from __future__ import annotations

import os
import re
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MASTERS = "usr/share/base-passwd"
SYSUSERS = "usr/lib/sysusers.d"
ALTERNATIVES = "etc/alternatives"
SYSTEM_IDS = range(100, 900)
"""Ids of system users; our own have higher ones."""
NOLOGIN = "/usr/sbin/nologin"
NAME = re.compile(r"[a-z_][a-z0-9_-]*")
STATE_SCRIPT = "usr/local/lib/openbach-run/state"
"""Script that makes, on a host, what packages have in directories that begin empty there."""
EMPTY_PLACES = ("var/lib", "var/log")
"""Directories that each host has for itself, empty."""
OWNERS = {"var/log/squid": "proxy", "var/spool/squid": "proxy"}
"""Directories that the scripts of packages give to a user in a form that is not read here."""
COMMANDS = {
    "usr/sbin/ldconfig": "ldconfig",
    "usr/sbin/a2enmod": (
        "a2enmod -m -q mpm_event authz_host authz_core auth_basic access_compat authn_file"
        " authz_user alias dir autoindex env mime negotiation setenvif filter deflate status"
        " reqtimeout"
    ),
    "usr/sbin/a2ensite": "a2ensite -q 000-default",
}
"""Program of a package → what else a host then needs."""


@dataclass(frozen=True)
class Alternative:
    """A name that several packages have a program for: `link` leads to `target`."""

    link: str
    name: str
    target: str
    priority: int


@dataclass
class Accounts:
    """Users and groups of a guest."""

    users: dict[str, str] = field(default_factory=dict)
    """Name → its line of /etc/passwd."""
    groups: dict[str, str] = field(default_factory=dict)

    def text(self) -> dict[str, str]:
        """The files by their place in the tree."""
        return {
            "etc/passwd": "".join(self.users.values()),
            "etc/group": "".join(self.groups.values()),
        }


def configure(root: Path, scripts: Mapping[str, str], files: Mapping[str, str]) -> None:
    """Configure the tree `root`, whose packages have these scripts (name → postinst).

    `files` are our own, whose users come first.
    """
    link(root, alternatives(scripts.values()))
    for name, text in accounts(root, scripts.values(), files).text().items():
        (root / name).write_text(text)
    script = root / STATE_SCRIPT
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("".join(f"{line}\n" for line in state(root)))


def alternatives(scripts: Iterable[str]) -> list[Alternative]:
    """Return the alternatives of all scripts; of one link the one with the highest priority."""
    best: dict[str, Alternative] = {}
    for text in sorted(scripts):
        for words in _calls(text, "update-alternatives"):
            for choice in _alternatives(words):
                # As update-alternatives does in its automatic mode.
                if choice.link not in best or choice.priority > best[choice.link].priority:
                    best[choice.link] = choice
    return [best[name] for name in sorted(best)]


def _alternatives(words: list[str]) -> Iterator[Alternative]:
    """Yield the alternatives that an `update-alternatives` of a script installs.

    Its words are `--install LINK NAME PATH PRIORITY [--slave LINK NAME PATH]…`.
    """
    if "--install" not in words:
        return
    place = words.index("--install") + 1
    main = words[place : place + 4]
    if len(main) < 4 or not main[3].lstrip("-").isdecimal():
        return
    priority = int(main[3])
    yield Alternative(main[0], main[1], main[2], priority)
    for index, word in enumerate(words):
        if word == "--slave" and len(words) > index + 3:
            link_name, name, target = words[index + 1 : index + 4]
            yield Alternative(link_name, name, target, priority)


def _calls(text: str, *programs: str) -> Iterator[list[str]]:
    """The words of each call of these programs that has no variable in it."""
    for line in text.replace("\\\n", " ").splitlines():
        call = re.split(r";|\|\||&&|>", re.sub(r"^\s*(if|!|then|&&|\|\|)\s+", "", line.strip()))[0]
        # A call with a variable depends on the machine, and is left out.
        if call.startswith(programs) and "$" not in call and "`" not in call:
            try:
                words = shlex.split(call)
            except ValueError:
                continue
            if words and words[0] in programs:
                yield words


def link(root: Path, choices: Iterable[Alternative]) -> None:
    """Make the links of alternatives as Debian does.

    A link leads to one in /etc/alternatives, and that to the program. A package's own file at the
    place stays.
    """
    (root / ALTERNATIVES).mkdir(parents=True, exist_ok=True)
    for choice in choices:
        place, target = root / choice.link.lstrip("/"), root / choice.target.lstrip("/")
        if not os.path.lexists(target) or os.path.lexists(
            place
        ):  # never where a link leads on this machine
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        middle = root / ALTERNATIVES / choice.name
        middle.unlink(missing_ok=True)
        middle.symlink_to(choice.target)
        place.symlink_to(f"/{ALTERNATIVES}/{choice.name}")


def accounts(root: Path, scripts: Iterable[str], files: Mapping[str, str]) -> Accounts:
    """Our own, those of base-passwd, and those that packages make."""
    lists = Accounts()
    for kind, known in (("passwd", lists.users), ("group", lists.groups)):
        # base-passwd's lists have the ids that are the same on every Debian.
        master = root / MASTERS / f"{kind}.master"
        text = files[f"etc/{kind}"] + (master.read_text() if master.exists() else "")
        for line in text.splitlines():
            known.setdefault(line.partition(":")[0], f"{line}\n")
    wanted = dict(_system_accounts(scripts))
    for file in sorted((root / SYSUSERS).glob("*.conf")) if (root / SYSUSERS).is_dir() else ():
        wanted |= dict(_sysusers(file.read_text()))
    taken = {int(line.split(":")[2]) for line in (*lists.users.values(), *lists.groups.values())}
    # Sorted, so that who gives way to whom does not depend on the packages' order.
    for name in sorted(wanted):
        home, with_user = wanted[name]
        number = _number(name, taken)
        taken.add(number)
        lists.groups.setdefault(name, f"{name}:x:{number}:\n")
        if with_user:
            group = lists.groups[name].split(":")[2]
            lists.users.setdefault(
                name, f"{name}:x:{number}:{group.strip()}:{name}:{home}:{NOLOGIN}\n"
            )
    return lists


def _number(name: str, taken: set[int]) -> int:
    """Return a free number that follows from the name.

    Of two names with the same number, the second in order gets the next.
    """
    # From the name alone: of trees with different packages both give a user the same id.
    first = zlib.crc32(name.encode()) % len(SYSTEM_IDS)
    numbers = [SYSTEM_IDS[(first + step) % len(SYSTEM_IDS)] for step in range(len(SYSTEM_IDS))]
    return next(number for number in numbers if number not in taken)


def _system_accounts(scripts: Iterable[str]) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Name → its home, and whether it is a user.

    Each has a group of its name; who is a user in one script stays one.
    """
    homes: dict[str, tuple[str, bool]] = {}
    for text in sorted(scripts):
        for words in _calls(text, "adduser", "addgroup", "useradd", "groupadd"):
            names = [word for word in words[1:] if NAME.fullmatch(word)]
            if not names or not {"--system", "-r"} & {*words}:
                continue
            name, is_user = (
                names[-1],
                words[0] in ("adduser", "useradd") and words[1:2] != ["--group"],
            )
            home = words[words.index("--home") + 1] if "--home" in words[:-1] else "/nonexistent"
            if is_user or name not in homes:
                homes[name] = home, is_user
    yield from homes.items()


def _sysusers(text: str) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Yield the entries of a file of sysusers.d.

    They are `u NAME ID "GECOS" HOME` and `g NAME ID`.
    """
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if len(words) > 1 and words[0].rstrip("!") in ("u", "g") and NAME.fullmatch(words[1]):
            home = words[4] if len(words) > 4 and words[4] != "-" else "/"
            yield words[1], (home, words[0].startswith("u"))


def state(root: Path) -> Iterator[str]:
    """Yield the lines of a script that sets up a host's own directories and configuration.

    The directories are those that packages have where hosts begin empty, with their owners.
    """
    yield "set -e"
    for place in EMPTY_PLACES:
        folders = [Path(above, name) for above, names, _ in os.walk(root / place) for name in names]
        for folder in sorted(folders):
            yield f"mkdir -p /{folder.relative_to(root)}"
    for name, owner in OWNERS.items():
        if (root / name).is_dir():
            yield f"chown {owner}:{owner} /{name}"
    for program, command in COMMANDS.items():
        if (root / program).exists():
            yield command
