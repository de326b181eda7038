# SPDX-License-Identifier: GPL-3.0-or-later
"""openbach-run: OpenBACH scenarios of the SATCOM VPN/PEP testbed, in virtual time."""
