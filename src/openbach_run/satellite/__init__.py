# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: satellite links whose rate, delay and loss change with time.

The job that plays link files defines what they are; it also has the constellation.
"""

import sys

from openbach_run.paths import SATELLITE_JOB

sys.path.append(str(SATELLITE_JOB))
