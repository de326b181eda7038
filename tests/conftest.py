# SPDX-License-Identifier: GPL-3.0-or-later
"""Where all tests find the jobs' own modules, and properties that take as long as the machine needs.

hypothesis allows an example 200 ms by default, and some seconds for the first values, which a busy
machine exceeds.
"""

import helpers.job_paths  # noqa: F401
from hypothesis import HealthCheck, settings

settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
