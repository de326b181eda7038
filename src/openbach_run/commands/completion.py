# SPDX-License-Identifier: GPL-3.0-or-later
"""`openbach-run completion SHELL`: the script with which a shell completes the command.

The scripts ask `openbach-run completion words WORD…` at each TAB: what can follow depends on the
scenario that is typed already, and on the folders that there are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module

from openbach_jobs import dama, dvbs2
from openbach_run.campaign.options import Options
from openbach_run.campaign.request import installed, named
from openbach_run.campaign.vpn_config import COMMANDS, CONFIG
from openbach_run.campaign.vpn_folder import vpn_of
from openbach_run.catalog import Catalog
from openbach_run.commands import main as command
from openbach_run.commands.arguments import command_parser
from openbach_run.commands.scenario_help import settings_of
from openbach_run.errors import InputError
from openbach_run.openbach.source import SUFFIXES, is_source

DESCRIPTION = """\
Prints what a shell needs to complete commands, scenarios, arguments, their values and options:

  openbach-run completion bash > ~/.local/share/bash-completion/completions/openbach-run
  openbach-run completion zsh > ~/.zfunc/_openbach-run      (~/.zfunc is in fpath)
  openbach-run completion fish > ~/.config/fish/completions/openbach-run.fish
"""
WORDS = "words"
SCRIPTS = {
    "bash": r"""_openbach_run() {
    local line=${COMP_LINE:0:COMP_POINT} words last
    read -ra words <<< "$line"
    [[ $line != *[[:space:]] ]] || words+=("")
    mapfile -t COMPREPLY < <("${words[0]/#\~/$HOME}" completion words "${words[@]:1}" 2> /dev/null)
    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
    # Readline replaces only what is behind the last sign that breaks words.
    last=${words[-1]}
    [[ $COMP_WORDBREAKS != *=* ]] || COMPREPLY=("${COMPREPLY[@]#"${last%"${last##*=}"}"}")
}
complete -o bashdefault -o default -F _openbach_run openbach-run ./openbach-run
""",
    "zsh": r"""#compdef openbach-run ./openbach-run
_openbach_run() {
    local -a typed=("${(@Q)words[2,CURRENT]}")
    local -a found=(${(f)"$("${words[1]/#\~/$HOME}" completion words "${typed[@]}" 2> /dev/null)"})
    if (( ! $#found )); then
        compset -P '*='
        _files
    else
        compadd -S '' -- ${(M)found:#*=}
        compadd -- ${found:#*=}
    fi
}
if [[ ${funcstack[1]-} == _openbach-run ]]; then # loaded from a file of this name, at the first TAB
    _openbach_run "$@"
else
    compdef _openbach_run openbach-run ./openbach-run
fi
""",
    "fish": r"""function __openbach_run
    set -l words (commandline -opc)
    set -l found ($words[1] completion words $words[2..] (commandline -ct) 2> /dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (string replace -r '.*=' '' -- (commandline -ct))
    end
end
complete -c openbach-run -f -a '(__openbach_run)'
""",
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    cli = command_parser("completion", DESCRIPTION)
    cli.add_argument("shell", choices=[*SCRIPTS])
    return cli


def main(argv: list[str]) -> int:
    """Print a script, or for one what can follow the words typed; return the exit code."""
    if argv[:1] == [WORDS]:
        print("".join(f"{text}\n" for text in completed(argv[1:])), end="")
    else:
        print(SCRIPTS[parser().parse_args(argv).shell], end="")
    return 0


def completed(words: Sequence[str]) -> list[str]:
    """Return what the last of the words, those behind the program's name, may become."""
    *before, last = words or [""]
    return sorted({text for text in _candidates(before, last) if text.startswith(last)})


def _candidates(before: Sequence[str], last: str) -> Iterable[str]:
    """Return what may stand behind the words `before`; `last` is what is typed of it."""
    catalog = Catalog()
    scenarios = named(catalog)
    if not before and not last.startswith("-"):
        return (*command.COMMANDS, *scenarios)
    parser = command.parser()
    if before and before[0] in command.COMMANDS:
        parser = import_module(command.COMMANDS[before[0]]).parser()
    for word in before:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
    by_option = {text: action for action in parser._actions for text in action.option_strings}
    if last.startswith("-"):
        return [text for text in by_option if text.startswith("--")]
    option = by_option.get(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        return map(str, option.choices or ())
    positional = [action for action in parser._actions if not action.option_strings]
    if not any(action.dest == "scenario" for action in positional):
        typed = {*before}
        return [
            str(text)
            for action in positional
            for text in action.choices or ()
            if not typed & {*map(str, action.choices or ())}
        ]
    scenario = next((word for word in before if word in scenarios), None)
    return scenarios if scenario is None else _settings(scenario, last)


def _settings(scenario: str, last: str) -> Iterable[str]:
    """Return `NAME=` for each setting of a scenario, or `NAME=VALUE` where the name is typed."""
    catalog, packages = installed(Options())
    path = named(catalog)[scenario]
    if path.suffix in SUFFIXES and not is_source(path):
        return ()
    try:
        every = settings_of(path, catalog, packages)
    except InputError:
        return ()
    name, equals, typed = last.partition("=")
    if equals:
        choices = [setting.choices or setting.default for setting in every if setting.name == name]
        before, comma, _ = typed.rpartition(",")
        listed = (value for values in choices for value in values if not value.startswith("$"))
        return [
            f"{name}={before}{comma}{value}" for value in listed if value not in before.split(",")
        ]
    names = [setting.name for setting in every]
    if name.startswith("vpn."):
        names += _vpn_values(catalog)
    names += [f"dama.{value}" for value in dama.VALUES] if "dama_values" in names else []
    names += [f"forward.{value}" for value in dvbs2.VALUES] if "forward_values" in names else []
    return [f"{name}=" for name in names]


def _vpn_values(catalog: Catalog) -> set[str]:
    """Return the values of all VPNs (`vpn.cipher` and so on), without those that a folder fixes."""
    vpns = catalog.all("vpn-configs")
    names = {f"vpn.{name}" for name in (CONFIG, COMMANDS)}
    for name, folder in vpns.items():
        if (folder / "up").exists():
            vpn = vpn_of(name, vpns)
            names |= {f"vpn.{value}" for value in vpn["reads"] if value not in vpn.get("fixed", ())}
    return names
