# SPDX-License-Identifier: GPL-3.0-or-later
"""The results that runs leave behind: records, measures, tables and files."""
