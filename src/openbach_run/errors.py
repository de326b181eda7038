# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors whose text is written for the person at the terminal."""

from __future__ import annotations


class InputError(Exception):
    """Bad input: the text says what is wrong, where, and what would be right. The command exits with 2."""


class SetupError(Exception):
    """The kernel, the guest tree or a package that a run needs could not be made. The command exits with 1."""
