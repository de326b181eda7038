# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's own configuration file of a VPN: `vpn.config=wg0.conf`.

The file is of one end. What the VPN's table (config.yml) takes of it becomes values of the VPN, as
`vpn.mtu=1420` would be, for that end or for both. Nothing else of the file leaves this module but
the names and numbers of its lines: no key, no address, no command.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from openbach_jobs.link_file import near
from openbach_run.campaign.vpn_folder import is_taken, not_taken, vpn_of
from openbach_run.catalog import with_base
from openbach_run.errors import InputError
from openbach_run.openbach.shapes import check
from openbach_run.yaml_files import read_yaml

CONFIG, COMMANDS = "config", "commands"
"""The values `vpn.config` and `vpn.commands`, which no VPN reads itself."""
TABLE = "config.yml"
MOST_BYTES, MOST_LINES, MOST_CHARACTERS = 256 << 10, 1000, 16 << 10
"""Limits of a file: its bytes, its lines outside of blocks, the characters of a line."""
MOST_FILES = 64
"""Files in a folder of a person's, one of which is the configuration."""
NAME = re.compile(r"-{0,2}[A-Za-z][A-Za-z0-9_-]{0,63}")
PLAIN = re.compile(r"(?!.*(^| )-)[A-Za-z0-9_.:/@%+= -]*")
"""Pattern of a value: words of no shell, and none that is an option."""
SHOWN = re.compile(r"(?=.{1,32}$)[A-Za-z][a-z]*(?:[A-Z-][a-z]+)*")
"""A name that is not known and may be shown: a line that got out of its block may be a key."""
CONTROL = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]|[\x7f-\x9f\u2028\u2029]")
COMMENT = {"sections": re.compile("#.*"), "words": re.compile(r"(^|\s)[#;].*")}
ENDS = ("client", "server")
OPTIONS = "options"

MAY_LACK = ("always", "absent", "commands", "carriers", "carrier_words")


class Line(NamedTuple):
    """A line of a file: its number, the name that the table has for it, and what follows."""

    number: int
    name: str
    text: str

    @property
    def known_as(self) -> str:
        """Return the name without its section."""
        return self.name.rpartition(".")[2]


@dataclass
class Config:
    """A configuration file, as one VPN takes it."""

    file: str
    sha256: str
    vpn: str
    end: str = "server"
    """The end whose file it is: `client` or `server`."""
    values: dict[str, str] = field(default_factory=dict)
    """The values that it makes, with those that were given beside it."""
    commands: bool = False
    """True if commands of the file are run."""
    taken: list[str] = field(default_factory=list)
    usual: list[str] = field(default_factory=list)
    """Values in force without a line of the file."""
    replaced: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Reason → the lines."""

    @property
    def text(self) -> str:
        """Return the values as the text of the job's argument."""
        return ";".join(f"{name}={value}" for name, value in self.values.items()) or "none"

    def to_record(self) -> dict[str, Any]:
        """Return it for a record."""
        return dict(self.__dict__)

    def in_words(self) -> str:
        """Return the list of its lines for a person."""
        counts = [len(self.taken)]
        counts += [sum(map(len, groups.values())) for groups in (self.replaced, self.left_out)]
        lines = [
            f"vpn.config={self.file} for {self.vpn}, the {self.end}'s end: lines taken {counts[0]},"
            f" replaced {counts[1]}, left out {counts[2]}; SHA-256 {self.sha256[:16]}…"
        ]
        for head, named in (("taken", self.taken), ("in force without a line", self.usual)):
            lines += [f"{head}: {', '.join(named)}"] if named else []
        for head, groups in (("replaced", self.replaced), ("left out", self.left_out)):
            lines += [f"{head}, {why}: {', '.join(named)}" for why, named in groups.items()]
        return "\n  ".join(lines)


def read_config(
    file: str, vpn: str, given: Mapping[str, str], vpns: Mapping[str, Path], at: str = ""
) -> Config:
    """Return what a VPN takes of a file, beside the values `given`; `at` stands before `config`.

    Raises InputError for a file that is none, for a line that cannot be read, and for one that
    makes another VPN of it.
    """
    table, here = table_of(vpn, vpns), f"{at}{CONFIG}={file}"
    if table is None:
        others = [name for name in sorted(vpns) if table_of(name, vpns)]
        raise InputError(f"{here}: {vpn} takes no file; those that do are {', '.join(others)}")
    switch = given.get(COMMANDS, "off")
    if switch not in ("on", "off") or (switch == "on" and not table["commands"]):
        why = f"{vpn} runs no command of a file" if switch == "on" else "should be on or off"
        raise InputError(f"{at}{COMMANDS}={switch}: {why}")
    beside = list[str]()
    if os.path.isdir(file):
        file, beside = _in_folder(file, table["looks_like"])
    content = _content(file)
    text = _text(file, content)
    if not re.search(table["looks_like"], text):
        raise InputError(f"{here}: is no {table['format']} file{_meant(text, vpns)}")
    lines = list(PARSERS[table["form"]](file, text, table))
    if len(lines) > MOST_LINES:
        raise InputError(f"{file}, line {lines[MOST_LINES].number}: more than {MOST_LINES} lines")
    end = "client" if any(line.name in table["client"] for line in lines) else "server"
    config = Config(file, hashlib.sha256(content).hexdigest(), vpn, end)
    _check_carrier(config, lines, table, vpns)
    _Judge(config, table, given, vpns).judge(lines)
    if beside:
        config.left_out["beside the file: keys are made anew, and no other file is used"] = beside
    return config


def table_of(vpn: str, vpns: Mapping[str, Path]) -> dict[str, Any] | None:
    """Return the table of the files that a VPN takes; None if it takes none. Raises InputError."""
    owner = with_base(vpns[vpn], vpns).get(CONFIG) if vpn in vpns else None
    if owner is None:
        return None
    if owner not in vpns:
        raise InputError(f"{vpns[vpn]}: config: there is no vpn-configs/{owner}")
    return _table(vpns[owner] / TABLE)


@cache
def _table(file: Path) -> dict[str, Any]:
    table = read_yaml(file)
    check(f"{file}", table, "config")
    rules = {name: rule for rule in table["taken"] for name in rule["lines"]}
    return {"once": [], **{key: {} for key in MAY_LACK}, **table, "rules": rules}


# The file


def _in_folder(folder: str, looks_like: str) -> tuple[str, list[str]]:
    """Return the one configuration in a folder, and what is beside it. Raises InputError."""
    names = sorted(os.listdir(folder))
    if len(names) > MOST_FILES:
        raise InputError(f"{folder}: more than {MOST_FILES} files: no folder of a VPN's file")
    configurations = list[str]()
    for name in names:
        with suppress(InputError):
            file = os.path.join(folder, name)
            if os.path.isfile(file) and re.search(looks_like, _text(file, _content(file))):
                configurations.append(name)
    if len(configurations) != 1:
        these = f"{len(configurations)}, give one:" if configurations else "none among"
        shown = ", ".join(map(ascii, configurations or names))
        raise InputError(f"{folder}: should have one such file, and has {these} {shown}")
    beside = [ascii(name) for name in names if name not in configurations]
    return os.path.join(folder, configurations[0]), beside


def _content(file: str) -> bytes:
    """Return the bytes of a file, which is neither a device nor endless. Raises InputError."""
    try:
        # Without waiting: a FIFO has an end only when somebody has written.
        opened = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise InputError(f"{file}: not a regular file")
            with open(opened, "rb", closefd=False) as reader:
                content = reader.read(MOST_BYTES + 1)
        finally:
            os.close(opened)
    except FileNotFoundError:
        raise InputError(f"{file}: there is no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"{file}: more than {MOST_BYTES >> 10} KiB: no configuration of a VPN")
    return content


def _text(file: str, content: bytes) -> str:
    """Return the text of a file, its lines ended by a newline alone. Raises InputError."""
    try:
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file}, line {line}: not UTF-8: a configuration is text") from None
    if wrong := CONTROL.search(text):
        line = text.count("\n", 0, wrong.start()) + 1
        raise InputError(f"{file}, line {line}: a control character: a configuration is text")
    for number, line_text in enumerate(text.split("\n"), 1):
        if len(line_text) > MOST_CHARACTERS:
            raise InputError(f"{file}, line {number}: more than {MOST_CHARACTERS} characters")
    return text


def _sections(file: str, text: str, table: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines `Name = value` of a file with [Sections]. Raises InputError."""
    known = {name.lower(): name for name in _names(table)}
    section, seen = "", list[str]()
    for number, line in _lines(text, table):
        if heading := re.fullmatch(r"\[(\w{1,64})\]", line):
            section = heading[1].capitalize()
            seen.append(section)
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not NAME.fullmatch(name) or not section:
            raise InputError(f"{file}, line {number}: should be [Section], or NAME = VALUE in one")
        again = section in table["once"] and seen.count(section) > 1
        whole = f"{section} {seen.count(section)}.{name}" if again else f"{section}.{name}"
        yield Line(number, known.get(whole.lower(), whole), value)


def _words(file: str, text: str, table: Mapping[str, Any]) -> Iterator[Line]:
    """Yield the lines of a file with a directive in each, and blocks <NAME> … </NAME>.

    What is in a block is a key or a certificate, but for <connection>. Raises InputError.
    """
    block, began = "", 0
    for number, line in _lines(text, table):
        if block:
            block = "" if line == f"</{block}>" else block
            continue
        if heading := re.fullmatch(r"<(/?)([a-z0-9][a-z0-9-]{0,63})>", line):
            if not heading[1]:
                yield Line(number, heading[2], "")
            if heading[2] != "connection":
                block, began = heading[2], number
            continue
        name, *rest = line.split()
        if not NAME.fullmatch(name):
            raise InputError(f"{file}, line {number}: should begin with the name of a directive")
        yield Line(number, name.lstrip("-"), " ".join(rest).replace('"', "").replace("'", ""))
    if block:
        raise InputError(f"{file}, line {began}: <{block}> has no end </{block}>")


PARSERS = {"sections": _sections, "words": _words}


def _lines(text: str, table: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are more than a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        if kept := COMMENT[table["form"]].sub("", line).strip():
            yield number, kept


def _names(table: Mapping[str, Any]) -> list[str]:
    """Return the names of the lines that a table knows."""
    groups = (*table["replaced"].values(), *table["left_out"].values())
    return [*table["rules"], *table["commands"], *(name for group in groups for name in group)]


def _meant(text: str, vpns: Mapping[str, Path]) -> str:
    """Return which VPNs take a file with this text, in words; "" if none does."""
    kinds: dict[str, list[str]] = {}
    for vpn in sorted(vpns):
        table = table_of(vpn, vpns)
        if table and re.search(table["looks_like"], text):
            kinds.setdefault(table["format"], []).append(vpn)
    texts = [f"it is one of {form}: give vpn={' or '.join(names)}" for form, names in kinds.items()]
    return f"; {'; '.join(texts)}" if texts else ""


def _check_carrier(
    config: Config, lines: Sequence[Line], table: Mapping[str, Any], vpns: Mapping[str, Path]
) -> None:
    """Check that a file is for the carrier of the VPN. Raises InputError that names others."""
    carriers, places = table["carriers"], table["carrier_words"]
    carrier = with_base(vpns[config.vpn], vpns).get("carrier")
    if carrier not in carriers:
        return
    hints = []
    for line in lines:
        words = line.text.split()
        if len(words) > (place := places.get(line.name, MOST_CHARACTERS)):
            hints.append((f"{config.file}, line {line.number}: {line.name}", words[place]))
    hints = hints or [(f"{config.file}: no line", carriers["usual"])]
    if any(re.fullmatch(carriers[carrier], word) for _, word in hints):
        return
    where, word = hints[0]
    fits = [
        name
        for name in sorted(vpns)
        if table_of(name, vpns) == table
        and re.fullmatch(carriers.get(with_base(vpns[name], vpns).get("carrier"), "-"), word)
    ]
    instead = f": give vpn={' or '.join(fits)}" if fits else ""
    raise InputError(f"{where} says another protocol than {carrier}, {config.vpn}'s{instead}")


# Its lines


class _Judge:
    """The judgement of a file's lines: taken, replaced, or left out."""

    def __init__(
        self,
        config: Config,
        table: Mapping[str, Any],
        given: Mapping[str, str],
        vpns: Mapping[str, Path],
    ) -> None:
        self._config, self._table, self._given = config, table, dict(given)
        self._names = {re.sub("^(client|server)-", "", name) for name in given}
        self._whole = vpn_of(config.vpn, vpns)
        self._known: list[str] = self._whole["reads"]
        self._options: list[tuple[bool, str]] = []
        """Words of the command line, each with whether they are for the file's own end only."""
        self._commands: dict[str, list[str]] = {}
        self._runs = self._given.pop(COMMANDS, "off") == "on"

    def judge(self, lines: Sequence[Line]) -> None:
        """Judge all lines, and what is in force without one; make the values. Raises InputError."""
        last = {line.name: line.number for line in lines}
        for line in lines:
            self._judge(line, last[line.name])
        config = self._config
        for name, text in self._table["absent"].items():
            if name not in last and not self._not_here(name, self._table["rules"][name], text):
                self._take(Line(0, name, text), self._table["rules"][name])
                config.usual.append(f"{name} {text or '(its own rule)'}")
        for name, text in self._table["always"].items():
            if name in self._known and name not in self._names:
                config.values[name] = text
                config.usual.append(f"vpn.{name}={text}")
        for name, several in self._commands.items():
            whole = "\n".join(several).encode()
            config.values[f"{config.end}-{name}"] = base64.b64encode(whole).decode()
            config.commands = True
        self._add_options()
        config.values |= self._given

    def _judge(self, line: Line, last: int) -> None:
        """Judge a line; `last` is the number of the last one of its name. Raises InputError."""
        table, config = self._table, self._config
        shown = f"line {line.number} {line.known_as}"
        if (name := table["commands"].get(line.name)) and self._runs and name in self._known:
            self._commands.setdefault(name, []).append(line.text)
            config.taken.append(f"{shown} (run in the guest)")
        elif name:
            why = "a command, and none is run; vpn.commands=on runs it in the guest"
            config.left_out.setdefault(why, []).append(shown)
        elif (rule := table["rules"].get(line.name)) is not None:
            if not re.fullmatch(rule.get("pattern", ".*"), line.text) and (
                line.text not in rule.get("words", ())
            ):
                raise InputError(f"{config.file}, {shown}: should be {rule['like']}")
            if why := (
                f"line {last} says it again"
                if line.number != last
                else self._not_here(line.name, rule, line.text)
            ):
                config.left_out.setdefault(why, []).append(shown)
                return
            self._take(line, rule)
            if "because" in rule:
                config.replaced.setdefault(rule["because"], []).append(shown)
            else:
                sign = " = " if table["form"] == "sections" else " "
                config.taken.append(f"{shown}{sign if line.text else ''}{line.text}")
        else:
            self._name(line, shown)

    def _name(self, line: Line, shown: str) -> None:
        """List a line that the table names only, or does not know."""
        for key, into in (("replaced", self._config.replaced), ("left_out", self._config.left_out)):
            for why, names in self._table[key].items():
                if line.name in names:
                    into.setdefault(why, []).append(shown)
                    return
        section, _, number = line.name.partition(".")[0].partition(" ")
        why = f"not known of {self._table['format']} here"
        if number:
            why = f"the testbed has two ends, and the first [{section}] counts"
        elif SHOWN.fullmatch(line.known_as):
            names = [name.rpartition(".")[2] for name in _names(self._table)]
            shown += f" ({hint})" if (hint := near(line.known_as, names).strip()) else ""
        else:
            shown = f"line {line.number}"
        self._config.left_out.setdefault(why, []).append(shown)

    def _not_here(self, name: str, rule: Mapping[str, Any], text: str) -> str:
        """Return why the VPN does not take a line as it is called here; "" if it does."""
        value = _value_of(name, rule)
        if value in self._names:
            return f"vpn.{value} is given"
        if "value" in rule and value not in self._known:
            return f"{self._config.vpn} does not read it"
        if self._is_option(rule):
            words = f"--{name} {text}".strip()
            if OPTIONS not in self._known or not is_taken(self._whole, OPTIONS, words):
                return f"{self._config.vpn} takes no --{name}"
        return ""

    def _is_option(self, rule: Mapping[str, Any]) -> bool:
        """Return whether a line becomes words of the program's command line."""
        return self._table["form"] == "words" and not rule.keys() & {"value", "checked"}

    def _take(self, line: Line, rule: Mapping[str, Any]) -> None:
        """Make a value, or words of the command line, of a line. Raises InputError."""
        part = re.fullmatch(rule.get("pattern", ".*"), line.text)
        text = (part and part.groupdict().get("is")) or line.text
        text = rule.get("is") or rule.get("words", {}).get(line.text, text)
        if not PLAIN.fullmatch(text):
            raise InputError(
                f"{self._config.file}, line {line.number} {line.known_as}: should be {rule['like']}"
            )
        is_own = rule.get("at") == "own"
        if "value" in rule:
            end, name = f"{self._config.end}-" if is_own else "", _value_of(line.name, rule)
            if wrong := not_taken(self._whole, name, text):
                raise InputError(
                    f"{self._config.file}, line {line.number} {line.known_as}: {wrong}"
                )
            self._config.values[f"{end}{name}"] = text
        elif self._is_option(rule):
            self._options.append((is_own, f"--{line.name} {text}".strip()))

    def _add_options(self) -> None:
        """Add the words of the command lines: of both ends if they are the same."""
        added = [self._given.pop(OPTIONS)] if OPTIONS in self._given else []
        own = [words for _, words in self._options] + added
        of_other = [words for is_own, words in self._options if not is_own] + added
        if own == of_other:
            options = {OPTIONS: own}
        else:
            (other,) = {*ENDS} - {self._config.end}
            options = {f"{self._config.end}-{OPTIONS}": own, f"{other}-{OPTIONS}": of_other}
        self._config.values |= {name: " ".join(words) for name, words in options.items() if words}


def _value_of(name: str, rule: Mapping[str, Any]) -> str:
    """Return the name of the VPN's value that a line gives."""
    named: str = rule.get("value", "same")
    return name.replace("-", "_") if named == "same" else named
