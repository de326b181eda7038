# SPDX-License-Identifier: GPL-3.0-or-later
"""Where all tests find the jobs' own modules, and properties that take as long as the machine needs.

hypothesis allows an example 200 ms by default, which a busy machine exceeds.
"""

import helpers.job_paths  # noqa: F401
from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
