# SPDX-License-Identifier: GPL-3.0-or-later
"""Write anew the lists that follow from the folders of congestion-controls.

    tools/dev tools/control_lists.py

They are the choices of the argument `cc` of three jobs, and the table of
docs/congestion-controls.md.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from openbach_jobs import profiles
from openbach_run.paths import REPOSITORY

JOBS = ("transport_profile", "satpep", "file_transfer")
TABLE = REPOSITORY / "docs/congestion-controls.md"
CHOICES = re.compile(r"(name: cc\n(?:.+\n)+? *choices: )\[.*\]")
ROWS = re.compile(
    r"(<!-- table: tools/control_lists.py -->\n).*?(<!-- end of table -->)", re.DOTALL
)


def texts() -> dict[Path, str]:
    """Return the files as they should be."""
    choices = f"[{', '.join(profiles.names())}]"
    jobs = {job: REPOSITORY / "jobs" / job / "files" / f"{job}.yml" for job in JOBS}
    return {
        **{file: _replaced(CHOICES, rf"\g<1>{choices}", file) for file in jobs.values()},
        TABLE: _replaced(ROWS, rf"\g<1>{_rows()}\g<2>", TABLE),
    }


def _replaced(pattern: re.Pattern[str], new: str, file: Path) -> str:
    text, count = pattern.subn(new, file.read_text())
    assert count == 1, f"{file}: {pattern.pattern}: {count} times"
    return text


def _rows() -> str:
    rows = ["| `cc` | | module |", "|---|---|---|"]
    for name in profiles.names():
        module = "of its folder" if (profiles.FOLDERS / name / "Kbuild").exists() else "Linux's"
        rows.append(f"| `{name}` | {profiles.described(name)['description']} | {module} |")
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for file, text in texts().items():
        file.write_text(text)
