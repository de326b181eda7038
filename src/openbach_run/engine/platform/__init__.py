# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller engine: runs on a real OpenBACH platform, over REST."""
