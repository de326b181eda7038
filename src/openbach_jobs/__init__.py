# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules that several jobs share.

A job imports them as `from openbach_jobs import netem`. In a checkout they are found because `src`
is where Python looks. An agent, the guest and a job's OpenBACH package have a copy in the job's own
folder, of those modules that its programs import (openbach_run/openbach/job_content.py), so that a
job runs alone.

Only Python's standard library and `collect_agent` of OpenBACH's agents may be imported here.
"""
