# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH's own terms: jobs, scenarios and their functions, values, projects."""
