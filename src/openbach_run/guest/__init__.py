# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a run inside the guest: hosts, agents and the director."""
