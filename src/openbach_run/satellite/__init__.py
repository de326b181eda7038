# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: satellite links whose rate, delay and loss change with time.

What a link file is, and the constellation, are with the job that plays them.
"""

import sys

from openbach_run.paths import SATELLITE_JOB

sys.path.append(str(SATELLITE_JOB))
