# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: satellite links whose rate, delay and loss change with time.

What link files, presets and constellations are is in openbach_jobs, where the job that plays them
finds it, too.
"""
