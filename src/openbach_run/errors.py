# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors whose text is written for the person at the terminal."""

from __future__ import annotations


class InputError(Exception):
    """An error of the input: the text says what is wrong, where, and what would be right.

    The command exits with 2.
    """


class NoSuchScenario(InputError):
    """A name that is neither that of a scenario nor that of a campaign."""


class SetupError(Exception):
    """A failure to make the kernel, the guest tree or a package that a run needs.

    The command exits with 1.
    """
