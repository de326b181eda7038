# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists that follow from the folders of congestion-controls.

`make control-lists` writes them anew.

They are the choices of the argument `cc` of three jobs, and the table of
docs/congestion-controls.md.
"""

from __future__ import annotations

import re
from pathlib import Path

from openbach_jobs import profiles

HERE = Path(__file__).resolve().parent
JOBS = ("transport_profile", "satpep", "file_transfer")
TABLE = HERE.parents[1] / "docs/congestion-controls.md"
CHOICES = re.compile(r"(name: cc\n(?:.+\n)+? *choices: )\[.*\]")
ROWS = re.compile(r"(<!-- table: make control-lists -->\n).*?(<!-- end of table -->)", re.DOTALL)


def texts() -> dict[Path, str]:
    """Return the files as they should be."""
    choices = f"[{', '.join(profiles.names())}]"
    jobs = {job: HERE.parent / job / "files" / f"{job}.yml" for job in JOBS}
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
    for file, text in texts().items():
        file.write_text(text)
