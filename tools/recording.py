# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what a command prints, as an animated picture for README.

    tools/dev tools/recording.py docs/pictures/first-table.svg ./openbach-run geo vpn=none

Each line appears in the picture when the command has printed it; SPEED times faster.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from html import escape
from pathlib import Path

from openbach_run.paths import REPOSITORY

SPEED = 1.5
COLUMNS, LINE_PX, CHARACTER_PX, MARGIN_PX = 84, 18, 7.8, 12
STYLE = (
    "rect{fill:#1b1f24}"
    "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#e6e6e6;white-space:pre;opacity:0;"
    "animation:a 0s forwards}"
    "@keyframes a{to{opacity:1}}"
    "@media(prefers-reduced-motion){text{opacity:1;animation:none}}"
)


def recorded(words: list[str]) -> list[tuple[float, str]]:
    """Run a command, and return its lines with the seconds at which they came; its errors too."""
    began_s = time.monotonic()
    lines = [(0.0, f"$ {shlex.join(words)}")]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        for line in running.stdout or ():
            lines.append(
                (time.monotonic() - began_s, line.rstrip("\n").replace(f"{REPOSITORY}/", ""))
            )
    if running.returncode:
        sys.exit(f"{words[0]} ended with {running.returncode}: {lines[-1][1]}")
    return lines


def picture(lines: list[tuple[float, str]]) -> str:
    """Return lines with seconds as an SVG whose lines appear one after the other."""
    width, height = round(2 * MARGIN_PX + COLUMNS * CHARACTER_PX), LINE_PX * (len(lines) + 1)
    texts = "".join(
        f'<text x="{MARGIN_PX}" y="{LINE_PX * (number + 1)}"'
        f' style="animation-delay:{at_s / SPEED:.2f}s">{escape(text[:COLUMNS])}</text>\n'
        for number, (at_s, text) in enumerate(lines)
        if text
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" rx="6"/>\n{texts}</svg>\n'
    )


def main() -> int:
    """Record the command, and write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="the picture, .svg")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="and its arguments")
    arguments = parser.parse_args()
    arguments.file.write_text(picture(recorded(arguments.command)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
