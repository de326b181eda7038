# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenBACH job pep: position none, that is no proxy. Positions A and B arrive with the PEP program (pep/)."""

from __future__ import annotations

import argparse
import signal

import collect_agent

CONFIGURATION = "/opt/openbach/agent/jobs/pep/pep_rstats_filter.conf"
SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("position", choices=["none"])
    parser.parse_args()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    signal.sigwait(SIGNALS)


if __name__ == "__main__":
    with collect_agent.use_configuration(CONFIGURATION):
        main()
