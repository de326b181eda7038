# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual pages, from the commands' own --help.

`tools/dev docs/man/manual.py` writes them, a wheel installs them.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

from argparse_manpage.manpage import Manpage

from openbach_run.commands import main

PLACE = Path(__file__).parent
MACROS = r"\.(?:SH|TP|nf|fi|B)\b"


def pages() -> dict[str, str]:
    """Return file name → text, in roff."""
    parsers = {"openbach-run": main.parser()}
    for name, module in main.COMMANDS.items():
        parsers[f"openbach-run-{name}"] = import_module(module).parser()
    main_page, *others = (f"\\fB{name}\\fR(1)" for name in parsers)
    see = dict.fromkeys(parsers, main_page) | {"openbach-run": ", ".join(others)}
    return {f"{name}.1": page(name, parser, see[name]) for name, parser in parsers.items()}


def page(name: str, parser: ArgumentParser, see: str) -> str:
    """Return the manual page of a parser, in roff; `see` are the pages that it refers to."""
    made = Manpage(parser)
    # a page without date and version is the same whenever it is made
    title = f'.TH {name.upper()} 1 "" "openbach\\-run" "SATCOM VPN/PEP testbed"\n'
    body = str(made).split("\n", 1)[1]
    body = re.sub(r"^\.SH NAME\n.*\n", f".SH NAME\n{name} \\\\- {summary(parser)}\n", body)
    body = body.replace(".SH DESCRIPTION\n", ".SH DESCRIPTION\n.nf\n", 1).replace(
        "\n\n.TP", "\n.fi\n.TP", 1
    )
    body = body.replace(".SH COMMENTS\n", ".SH EXAMPLES\n.nf\n", 1)
    body = re.sub(rf"(?m)^(?!{MACROS})([.'])", r"\\&\1", body)
    return f"{title}{body.rstrip()}\n.fi\n.SH SEE ALSO\n{see}\n"


def summary(parser: ArgumentParser) -> str:
    """The first sentence of its description."""
    text = re.sub("^`[^`]*`: ", "", " ".join((parser.description or "").split()))
    return re.split(r"[.:](?: |$)", text)[0].replace("-", "\\-")


def write(place: Path) -> None:
    """Write the pages anew."""
    for old in place.glob("*.1"):
        old.unlink()
    for file, text in pages().items():
        (place / file).write_text(text)


if __name__ == "__main__":
    ArgumentParser(description=__doc__).parse_args()
    write(PLACE)
