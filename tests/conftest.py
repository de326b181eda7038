# SPDX-License-Identifier: GPL-3.0-or-later
"""Places that all tests import from."""

import helpers.job_paths  # noqa: F401
