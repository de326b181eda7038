# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files from elsewhere: traces of others, weather; and a look at them.

What a link file is, and the constellation, are with the job that plays them.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3] / "jobs/satcom_link/files"))
