# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts, networks and routes of the platform, from an inventory file."""
