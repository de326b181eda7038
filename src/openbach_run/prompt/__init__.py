# SPDX-License-Identifier: GPL-3.0-or-later
"""A scenario's path without its measurement: commands run on its hosts instead."""
