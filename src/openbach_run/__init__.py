# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach-run: OpenBACH scenarios of the SATCOM VPN/PEP testbed, in virtual time."""


def __getattr__(name: str) -> object:
    """Return `openbach_run.run`, `.load` and the rest of api.py, so that only who uses them imports
    pandas.
    """
    from importlib import import_module

    if name not in ("InputError", "Results", "SetupError", "load", "run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.api"), name)
