# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs leave behind: records, measures, tables, files."""
