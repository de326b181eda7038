# SPDX-License-Identifier: GPL-3.0-or-later
"""The published report's findings under each platform, as the table of docs/platforms.md.

    tools/dev tools/platforms_table.py RESULTS…    # of library/campaigns/platforms.yml

A column is a platform, a row a part of a claim on an orbit: its verdict, how many comparisons hold,
and on which side of no difference, or of its bounds, their medians lie (< all below, > all above,
<> on both, = inside).
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from openbach_run.campaign.platforms import OURS, PLATFORM
from openbach_run.report.cells import Campaigns, read_campaigns
from openbach_run.report.claims import CANNOT_TELL, HOLDS, SATCOM, Finding, judge, read_claims
from openbach_run.report.write import CLAIMS
from openbach_run.results.tables import Table, as_markdown


def side(finding: Finding) -> str:
    """Return on which side of no difference, or of its bounds, a finding's medians lie."""
    part = finding.part
    least, most = (1.0, 1.0) if part.is_ratio else (part.least, part.most)
    if part.against is not None and not part.is_ratio:
        least = most = 0.0
    medians = [one.estimate.median for one in finding.comparisons if one.estimate]
    below, above = any(one < least for one in medians), any(one > most for one in medians)
    return "<" * below + ">" * above or "="


def in_words(finding: Finding) -> str:
    """Return a finding for the table: `partly 5/6 <`; a dash where it has no comparisons."""
    if not finding.comparisons:
        return "–"
    holding = len(finding.of(True))
    return f"{finding.verdict} {holding}/{len(finding.comparisons)} {side(finding)}"


def table_of(campaigns: Campaigns) -> Table:
    """Return the table, with a line of counts below it."""
    columns: dict[str, dict[tuple[str, str, str], Finding]] = {}
    for platform in campaigns.distinct(PLATFORM) or [OURS]:
        cells = [cell for cell in campaigns.cells if cell.values.get(PLATFORM, OURS) == platform]
        here = replace(campaigns, cells=cells)
        columns[platform] = {
            (name, one.part.says, one.orbit.upper()): one
            for name, described in read_claims(CLAIMS).items()
            for claim in [judge(name, described, here)]
            for one in claim.findings
            if claim.document == SATCOM and one.comparisons
        }
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    rows = []
    for key in keys:
        found = [column.get(key) for column in columns.values()]
        rows.append([*key, *(in_words(one) if one else "–" for one in found)])
    counted = []
    for platform, column in columns.items():
        verdicts = Counter(one.verdict for one in column.values())
        holding = sum(len(one.of(True)) for one in column.values())
        every = sum(len(one.comparisons) for one in column.values())
        counted.append(
            f"{platform}: {verdicts[HOLDS]} of {len(column)} reproduced,"
            f" {verdicts['partly']} partly, {verdicts['not']} not, {verdicts[CANNOT_TELL]}"
            f" inconclusive; {holding} of {every} comparisons hold"
        )
    header = ["claim", "what is compared", "orbit", *columns]
    return Table("Claims by platform", header, rows, "; ".join(counted), 3)


def main() -> None:
    """Print the table of the results directories that the command names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", nargs="+", type=Path)
    print(as_markdown(table_of(read_campaigns(parser.parse_args().results))))


if __name__ == "__main__":
    main()
