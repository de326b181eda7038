# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a scenario and values to finished runs.

It leads over cells, checks, run specifications and execution.
"""
