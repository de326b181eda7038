# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH's data_access for jobs in the guest: the statistics of this run, from its file."""
