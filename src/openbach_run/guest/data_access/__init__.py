# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH's data_access for jobs that run in the guest: what they draw is of this run, whose
statistics are in a file.
"""
