# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools of `openbach-run link`: link files made, fitted, compared and drawn.

What link files, presets and constellations are is in openbach_jobs, where the job that plays them
finds it, too.
"""
