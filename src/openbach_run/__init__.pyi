# SPDX-License-Identifier: GPL-3.0-or-later
from openbach_run.api import Callbacks as Callbacks
from openbach_run.api import InputError as InputError
from openbach_run.api import Lab as Lab
from openbach_run.api import LabClosed as LabClosed
from openbach_run.api import Options as Options
from openbach_run.api import Plan as Plan
from openbach_run.api import Ran as Ran
from openbach_run.api import Result as Result
from openbach_run.api import Results as Results
from openbach_run.api import SetupError as SetupError
from openbach_run.api import lab as lab
from openbach_run.api import load as load
from openbach_run.api import plan_of as plan_of
from openbach_run.api import run as run
from openbach_run.api import run_campaign as run_campaign

PUBLIC: set[str]
