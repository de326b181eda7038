# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach-run: OpenBACH scenarios of the SATCOM VPN/PEP testbed, in virtual time."""

PUBLIC = {
    "Callbacks", "InputError", "Lab", "LabClosed", "Options", "Plan", "Ran", "Result", "Results",
    "SetupError", "lab", "load", "plan_of", "run", "run_campaign",
}  # fmt: skip
"""Names that `import openbach_run` gives (docs/python.md)."""


def __getattr__(name: str) -> object:
    """Return `openbach_run.run`, `.load` and the rest of api.py.

    The import is late, so that only those who use it import pandas.
    """
    from importlib import import_module

    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.api"), name)
