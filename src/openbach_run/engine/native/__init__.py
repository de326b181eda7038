# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine: the guest tree, director and jobs in namespaces of this machine's own kernel,
in real time.
"""
