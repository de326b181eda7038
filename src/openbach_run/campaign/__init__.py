# SPDX-License-Identifier: GPL-3.0-or-later
"""From a scenario and values to finished runs: cells, run specifications, execution, forecast."""
