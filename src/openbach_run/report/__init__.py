# SPDX-License-Identifier: GPL-3.0-or-later
"""The technical report of one or more campaigns: results directories → cells → claims, figures → HTML, PDF, Markdown."""
