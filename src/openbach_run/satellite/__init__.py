# SPDX-License-Identifier: GPL-3.0-or-later
"""Link files: satellite links whose rate, delay and loss change with time."""
