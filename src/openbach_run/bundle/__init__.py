# SPDX-License-Identifier: GPL-3.0-or-later
"""One file that has all that a run needs, for any x86-64 Linux, and archives of results made with
it.
"""
