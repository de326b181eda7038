# SPDX-License-Identifier: GPL-3.0-or-later
"""The virtual engine: a User Mode Linux guest in time-travel mode, and what it is made of."""
