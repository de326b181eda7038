# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles: all that a run needs in one file for any x86-64 Linux, and archives of results."""
