# SPDX-License-Identifier: GPL-3.0-or-later
"""The local controller: OpenBACH's REST API and the page."""
