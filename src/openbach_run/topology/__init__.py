# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts, networks and routes of the platform, from an inventory file."""
