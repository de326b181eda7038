# SPDX-License-Identifier: GPL-3.0-or-later
from openbach_run.api import InputError as InputError
from openbach_run.api import Results as Results
from openbach_run.api import SetupError as SetupError
from openbach_run.api import load as load
from openbach_run.api import run as run
