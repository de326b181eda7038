# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of the job satcom_link that other rooms need too.

This package's own path leads to them.
"""

import constellation as constellation
import link_file as link_file
