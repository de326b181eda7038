# SPDX-License-Identifier: GPL-3.0-or-later
"""The engines, which execute runs: virtual, native, and the controller of a platform."""
