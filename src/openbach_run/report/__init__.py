# SPDX-License-Identifier: GPL-3.0-or-later
"""The technical report of one or more campaigns.

The way is: results directories → cells → claims and figures → HTML, PDF and Markdown.
"""
