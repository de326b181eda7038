# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line's beginning: `python -m openbach_run`.

It also makes the launcher's Python environment again if that is damaged.
"""

import gc
import os
import signal
import sys
from pathlib import Path

from openbach_run.errors import SetupError

LAUNCHER = Path(__file__).resolve().parents[2] / "openbach-run"
MADE_AGAIN = "OPENBACH_RUN_MADE_AGAIN"
"""Set when the environment was just made again: a second failure has another cause."""


def damaged(error: ImportError | SyntaxError) -> bool:
    """Return whether a package of the launcher's environment, and no module of ours, is missing."""
    where = error.filename if isinstance(error, SyntaxError) else error.path or error.name or ""
    ours = str(where).startswith((str(LAUNCHER.parent), "openbach_run", "openbach_jobs", "satlink"))
    return not ours and (Path(sys.prefix) / "complete").exists() and MADE_AGAIN not in os.environ


def main() -> int:
    """Run the command line, and return the exit code."""
    words = sys.argv[1:]
    if "--" not in words and {"-h", "--help"} & {*words}:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `--help | head` ends as other tools do
    gc.set_threshold(100_000)  # of 700: what is imported and planned is there to stay
    # numpy's threads would spin on the guests' CPUs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        # Within try: a damaged environment fails here.
        from openbach_run.commands.main import main as command

        return command()
    except KeyboardInterrupt:  # while it was still imported
        print("openbach-run: interrupted", file=sys.stderr)
        return 130
    except SetupError as error:
        print(f"openbach-run: {error}", file=sys.stderr)
        return 1
    except (ImportError, SyntaxError) as error:
        if not damaged(error):
            raise
        print(
            f"openbach-run: {sys.prefix} is damaged ({error}): making it again",
            file=sys.stderr,
            flush=True,
        )
        (Path(sys.prefix) / "complete").unlink()
        os.environ[MADE_AGAIN] = "1"
        os.execv(LAUNCHER, [str(LAUNCHER), *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
