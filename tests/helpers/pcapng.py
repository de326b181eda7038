# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the captures that the virtual engine writes."""

from openbach_run.results.captures import Packet, packets

__all__ = ["Packet", "read"]
read = packets
