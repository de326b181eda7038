# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m openbach_run`."""

import sys

from openbach_run.cli import main

sys.exit(main())
