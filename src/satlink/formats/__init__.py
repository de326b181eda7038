# SPDX-License-Identifier: GPL-3.0-or-later
"""The formats of measurements: one module for each family, and a table of all (table.py)."""
