# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine: guest tree, director and jobs in namespaces of this machine, in real time."""
