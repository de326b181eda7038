# SPDX-License-Identifier: GPL-3.0-or-later
"""What several tests use: engines, controllers, records and guests that are made up; no tests."""
