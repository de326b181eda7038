# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenBACH defines: jobs, scenarios and their functions, values, projects."""
