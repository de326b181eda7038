# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of page 1: what was swept, on which links, which measures, and which comparisons hold.

A measure has a block. Its cells are those of the campaigns in other words: a transport (TCP with a
control; QUIC of a stack with its own), a VPN with its own control and values, a PEP with its own,
and what is left, the link. The rules (`page_rules`) read nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from openbach_run.catalog import STREAMS, Catalog, description
from openbach_run.openbach.measures import Measure, flat, measure_of
from openbach_run.openbach.scenario import SAME
from openbach_run.report.cells import (
    DEFAULT,
    PARTS,
    SLOWEST,
    WORSE_MOS,
    Campaigns,
    Cell,
    is_numeral,
    measured_against,
)
from openbach_run.report.effects import Effect, differ, effects, median_of
from openbach_run.report.recommendations import (
    BETWEEN_ENDS,
    END_HOSTS,
    carrier_of,
    has_idle_pep,
    ties,
)
from openbach_run.report.words import ACCESS, file_of
from openbach_run.results.intervals import Estimate
from openbach_run.results.seeds import MIN_SEEDS
from openbach_run.units import number

CHOSEN = ("cc", "pep", "vpn")
"""Arguments that somebody chooses: the transport of the hosts, the PEP, the VPN."""
USUAL = {"cc": END_HOSTS, "pep": "none", "vpn": "none"}
"""Values where nobody has chosen anything."""
OWN = "own"
"""The loss of a link that loses by itself: of a file, or of a satellite."""
FIXED_RATE = "fixed:"
"""Beginning of a congestion control that is none: the sender has a fixed rate (`fixed:10M`)."""
EQUIVALENT = 1.05
"""Two configurations are equivalent where the whole interval lies within 5 %."""
COSTLY = 1.1
"""Ratio of two times from which the longer one is to be avoided: the published report calls 10 %
bad."""
LOST, LOST_BACK = "forward_lost_packets", "return_lost_packets"


class Kind(NamedTuple):
    """A measure that has a block, and what it means to people, with the source."""

    measure: str
    title: str
    meaning: str
    is_of_tcp: bool = True
    """True where the transport of the hosts carries it."""


KINDS = (
    Kind("transfer_time_s", "Transfer", "until the last byte is at the receiver"),
    Kind(SLOWEST, "Transfers at the same time", "until the last of them has ended"),
    Kind("cache_time_s", "Download from a cache", "until the last file is there"),
    Kind(
        "page_load_time_s",
        "Web page",
        "until its last object is there; people prefer 2 s and accept 4 s (ITU-T G.1010)",
    ),
    Kind(
        WORSE_MOS,
        "Call",
        "at best 4.4: from 4.0 people are satisfied, below 3.6 some are not, below 2.6 nearly"
        " nobody is (ITU-T G.107, annex B)",
        is_of_tcp=False,
    ),
    Kind("video_quality_pct", "Video", "of all that were sent", is_of_tcp=False),
    Kind("tcp_mbps", "Throughput", "of all connections together"),
    Kind("udp_mbps", "Throughput", "of the rate that was sent", is_of_tcp=False),
    Kind("ping_rtt_ms", "Pings", "beside whatever else was sent", is_of_tcp=False),
)
"""The blocks of page 1, in this order."""


@dataclass(frozen=True)
class Comparison:
    """Two cells that differ in one thing that was chosen."""

    cell: Cell
    reference: Cell
    change: Estimate
    """Ratio of the first cell's measure to the other's."""
    is_worse: bool
    is_better: bool
    is_equivalent: bool


@dataclass(frozen=True, eq=False)
class Block:
    """The cells that have a measure, as page 1 tells them apart; equal only to itself."""

    kind: Kind
    cells: list[Cell]
    campaigns: Campaigns

    @property
    def measure(self) -> str:
        """Return the measure's column."""
        return self.kind.measure

    @cached_property
    def of_measure(self) -> Measure:
        """Return the measure as its job declares it."""
        return measure_of(self.measure, flat(self.campaigns.declared))[1]

    @property
    def is_time(self) -> bool:
        """Return whether less of the measure is better, and it is a time."""
        return self.of_measure.unit in ("s", "ms")

    @property
    def is_more_better(self) -> bool:
        """Return whether more of the measure is better."""
        return self.of_measure.better == "more"

    @property
    def is_ranked(self) -> bool:
        """Return whether more or less of the measure is better."""
        return self.is_time or self.of_measure.better is not None

    @cached_property
    def tie(self) -> dict[str, float]:
        """Return by transport the ratio up to which cells count as equal; at most EQUIVALENT."""
        every = ties(self.cells, self.measure)
        return {cc: min(tie, EQUIVALENT) for cc, tie in every.items()}

    @cached_property
    def effects(self) -> list[Effect]:
        """Return the effect of each argument that was swept, the largest first."""
        cells = [cell for cell in self.cells if not has_fixed_rate(cell)]
        return effects(cells, self.measure, self.tie)

    @cached_property
    def swept(self) -> list[str]:
        """Return the arguments that were swept."""
        return [effect.name for effect in self.effects]

    @cached_property
    def links(self) -> list[dict[str, str]]:
        """Return the orbits and other conditions that were swept, but for the loss, in order."""
        names = [name for name in self.swept if name not in ("loss", *CHOSEN)]
        names.sort(key=lambda name: name not in ("orbit", "link_file"))
        if ACCESS[0] in names:
            arguments = set().union(*(cell.values for cell in self.cells))
            names += [name for name in ACCESS[1:] if name in arguments and name not in names]
        links: dict[tuple[str, ...], dict[str, str]] = {}
        for cell in self.cells:
            values = {name: cell.values.get(name, "") for name in names}
            links.setdefault(tuple(values.values()), values)
        return list(links.values())

    @cached_property
    def losses(self) -> list[str]:
        """Return the random losses that were swept, the least first.

        There are none if the losses are those of the links: each link has another one, and only it.
        """
        every = self.campaigns.distinct("loss", self.cells)
        of_links = []
        for link in self.links:
            of_links.append({cell.values.get("loss") for cell in self.of(**link)})
        if len(every) > 1 and all(len(losses) < 2 for losses in of_links):
            return []
        return sorted(every, key=lambda loss: number(loss) or 0.0)  # a link's own one is the least

    @cached_property
    def conditions(self) -> list[dict[str, str]]:
        """Return every link with every loss that it was run with."""
        conditions = []
        for link in self.links:
            of_link = self.campaigns.distinct("loss", self.of(**link))
            lacking = [""] if any("loss" not in cell.values for cell in self.of(**link)) else []
            for loss in [*of_link, *lacking] if self.losses else [None]:
                conditions.append(link if loss is None else {**link, "loss": loss})
        return conditions

    @cached_property
    def usual(self) -> dict[str, str]:
        """Return the values of CHOSEN with which others are compared, as far as cells have them."""
        usual = {}
        for name, value in USUAL.items():
            values = self.campaigns.distinct(name, self.cells)
            if values:
                usual[name] = value if value in values else values[0]
        return usual

    @cached_property
    def _by_values(self) -> dict[frozenset[tuple[str, str]], Cell]:
        return {_key(cell.values): cell for cell in self.cells}

    def find(self, **wanted: str) -> Cell | None:
        """Return the first cell with these values and the usual others."""
        values = {**self.usual, **wanted}
        return next((cell for cell in self.cells if cell.has(values)), None)

    def partner(self, cell: Cell, vpn: str) -> Cell | None:
        """Return the cell with another VPN and otherwise the same."""
        return self.other(cell, vpn=vpn)

    def other(self, cell: Cell, **other: str) -> Cell | None:
        """Return the cell with other values of these arguments, and otherwise the same."""
        return self._by_values.get(_key({**cell.values, **other}))

    def of(self, **wanted: str) -> list[Cell]:
        """Return the cells with these values."""
        return [cell for cell in self.cells if cell.has(wanted)]

    def median(self, cell: Cell) -> float:
        """Return a cell's median."""
        return median_of(cell, self.measure)

    def badness(self, cell: Cell, best: float) -> float:
        """Return how many times worse than the best value a cell's median is."""
        median = self.median(cell)
        below, above = (median, best) if self.is_more_better else (best, median)
        return above / below if below > 0 else float("inf") if above > below else 1.0

    def compare(self, cell: Cell | None, reference: Cell | None) -> Comparison | None:
        """Return the comparison of two cells; None if there are too few seeds for one."""
        ratio = measured_against(cell, reference, self.measure) if cell and reference else None
        if not (cell and reference and ratio) or ratio.seeds < MIN_SEEDS:
            return None
        more = bool(differ(cell, reference, self.measure, self.tie))
        is_more, is_less = more and ratio.median > 1, more and ratio.median < 1
        if self.is_more_better:
            is_more, is_less = is_less, is_more
        within = ratio.lies_within(1 / EQUIVALENT, EQUIVALENT)
        return Comparison(cell, reference, ratio, is_more, is_less, within is True)

    def comparisons(self, name: str, value: str, other: str, **wanted: str) -> list[Comparison]:
        """Return the comparisons of cells with a value to those with another one."""
        comparisons = []
        for cell in self.of(**wanted, **{name: value}):
            comparison = self.compare(cell, self.other(cell, **{name: other}))
            comparisons += [comparison] if comparison else []
        return comparisons

    @cached_property
    def operators_pep(self) -> str:
        """Return the PEP that customers without a VPN have: where shown to help them, else none.

        It is between the ends of a tunnel, at the operator's hosts. Of several the best counts.
        """
        gains = [(1.0, USUAL["pep"])]
        for pep in self.campaigns.distinct("pep", self.cells):
            pairs = self.comparisons("pep", pep, USUAL["pep"], vpn=USUAL["vpn"], **self.hosts)
            for pair in pairs if pep.partition(" ")[0] in BETWEEN_ENDS else ():
                gain = self.badness(pair.reference, self.median(pair.cell))
                gains += [(gain, pep)] if pair.is_better else []
        return max(gains)[1]

    @property
    def hosts(self) -> dict[str, str]:
        """Return the usual transport, as far as cells have a choice of one."""
        return {name: self.usual[name] for name in ("cc",) if name in self.usual}

    @cached_property
    def is_claimed(self) -> bool:
        """Return whether the cells have seeds enough to claim anything."""
        return any(_seeds(cell, self.measure) >= MIN_SEEDS for cell in self.cells)

    @cached_property
    def lossy(self) -> bool:
        """Return whether packets are lost at random where the loss that was asked for is 0."""
        lossless = [cell for cell in self.cells if number(cell.values.get("loss", "")) == 0]
        return any(max(cell.measured(LOST).values(), default=0) > 0 for cell in lossless)

    @cached_property
    def lost_packets(self) -> float | None:
        """Return the greatest median of packets that a link has lost by itself; None if unknown."""
        own = [cell for cell in self.cells if cell.values.get("loss") == OWN or self.lossy]
        return max((median_of(cell, LOST) for cell in own if cell.measured(LOST)), default=None)

    @cached_property
    def idle(self) -> bool:
        """Return whether a PEP stands between the ends of a tunnel that it cannot split."""
        return any(map(has_idle_pep, self.cells))


@dataclass(frozen=True, eq=False)
class PageOne:
    """The blocks of page 1."""

    blocks: list[Block]
    campaigns: Campaigns

    @cached_property
    def vpns(self) -> list[str]:
        """Return all VPNs, in their order."""
        every = [self.campaigns.distinct("vpn", block.cells) for block in self.blocks]
        return [vpn for vpn in dict.fromkeys(chain.from_iterable(every)) if vpn != USUAL["vpn"]]

    @cached_property
    def equivalents(self) -> list[list[str]]:
        """Return the VPNs in groups, all of one being equivalent in whatever was run."""
        groups: list[list[str]] = []
        for vpn in self.vpns:
            for group in groups:
                if all(self._is_equivalent(vpn, other) for other in group):
                    group.append(vpn)
                    break
            else:
                groups.append([vpn])
        return groups

    def alike(self, vpn: str) -> list[str]:
        """Return the VPNs that are equivalent with one in whatever was run, and that one."""
        return next((group for group in self.equivalents if vpn in group), [vpn])

    def _is_equivalent(self, vpn: str, other: str) -> bool:
        """Return whether two VPNs are equivalent in each measure, under all conditions of both."""
        compared = 0
        for block in self.blocks:
            cells = block.of(vpn=vpn)
            if len(cells) != len(block.of(vpn=other)):
                return False
            for cell in cells:
                comparison = block.compare(cell, block.other(cell, vpn=other))
                if comparison is None or not comparison.is_equivalent:
                    return False
                compared += 1
        return compared > 0


def page_one(campaigns: Campaigns) -> PageOne | None:
    """Return page 1 of these campaigns; None if nothing was measured."""
    blocks = [block_of(kind, campaigns.cells, campaigns) for kind in _kinds(campaigns)]
    with_cells = [block for block in blocks if block.cells]
    return PageOne(with_cells, campaigns) if with_cells else None


def block_of(kind: Kind, cells: Iterable[Cell], campaigns: Campaigns) -> Block:
    """Return the block of a measure, with those of the cells that have it."""
    measured = [cell for cell in cells if cell.measured(kind.measure)]
    if kind.measure == SLOWEST and any("size" in cell.values for cell in campaigns.cells):
        # Flows without a size last as long as they are told to.
        measured = [cell for cell in measured if "size" in cell.values]
    return Block(kind, _told_apart(measured, campaigns.cells), campaigns)


def _kinds(campaigns: Campaigns) -> list[Kind]:
    """Return the measures that have a block: KINDS, and what a scenario shows that has none."""
    shown: dict[str, None] = {}
    scenarios: dict[str, list[Cell]] = {}
    for cell in campaigns.cells:
        scenarios.setdefault(cell.values["scenario"], []).append(cell)
    for scenario, cells in scenarios.items():
        known = [kind for kind in KINDS if _is_measured(cells, kind.measure)]
        own = campaigns.plots.get(scenario, DEFAULT).measure
        names = list(filter(partial(_is_measured, cells), (own, *measures_of(cells))))
        is_part = any(pattern.fullmatch(own) for _, pattern in PARTS.values())
        if names and not (known and (own not in names or is_part)):
            shown[names[0]] = None
    for kind in KINDS:
        shown.pop(kind.measure, None)
    return [*KINDS, *(Kind(name, "Also measured", "", is_of_tcp=False) for name in shown)]


def _is_measured(cells: Iterable[Cell], measure: str) -> bool:
    return any(cell.measured(measure) for cell in cells)


def measures_of(cells: Iterable[Cell]) -> list[str]:
    """Return the names of the measures that any run of these cells has."""
    names: dict[str, None] = {}
    for cell in cells:
        for run in cell.runs:
            names |= dict.fromkeys(run.record.measures if run.record else ())
    return list(names)


def _told_apart(cells: Sequence[Cell], every: Sequence[Cell]) -> list[Cell]:
    """Return the cells with transport, VPN, PEP and link as page 1 tells them apart.

    What differs in nothing of these is one configuration: that with most runs is taken. A VPN has
    one name on all of page 1, so what tells VPNs apart is sought in every cell.
    """
    several = set()
    for name, among in (("http", cells), ("vpn_values", every), ("pep_program", every)):
        several |= {name} if len({cell.values.get(name, "none") for cell in among}) > 1 else set()
    own = {cell.values.get(name, SAME) for name in ("cc_pep", "cc_tunnel") for cell in every}
    several |= {"cc_tunnel"} if own != {SAME} else set()
    lossless = _lossless(cells)
    cells_of: dict[frozenset[tuple[str, str]], Cell] = {}
    for cell in cells:
        values = _with_pep(_with_vpn(_with_transport(cell.values, several), several), several)
        values = _link(values, lossless)
        key = _key(values)
        if key not in cells_of or len(cells_of[key].runs) < len(cell.runs):
            cells_of[key] = replace(cell, values=values)
    return list(cells_of.values())


def _key(values: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((k, v) for k, v in values.items() if k != "scenario" and v not in ("", SAME))


def _with_transport(values: Mapping[str, str], several: Iterable[str]) -> dict[str, str]:
    """Return values in which `cc` is a transport: `cubic`, `cubic http=2`, `QUIC nginx reno`."""
    left = {name: value for name, value in values.items() if name not in ("http", "quic")}
    http = values.get("http", "none")
    if http == "3":
        stack = values.get("quic", "")
        controls = _controls_of(stack)
        own = values.get("cc", "")
        left["cc"] = " ".join(
            filter(None, ("QUIC", stack, own if own in controls else controls[0]))
        )
    elif "http" in several and http != "none" and "cc" in left:
        left["cc"] += f" http={http}"
    return left


@cache
def _controls_of(stack: str) -> list[str]:
    """Return the congestion controls that an implementation of QUIC has, its usual one first."""
    folder = Catalog().find("quic-stacks", stack)
    return list(description(folder).get("congestion_controls", [""])) if folder else [""]


def _with_vpn(values: Mapping[str, str], several: Iterable[str]) -> dict[str, str]:
    """Return values in which `vpn` has its own control and values: `openvpn_tcp cc_tunnel=bbr2`."""
    left = {name: value for name, value in values.items() if name != "cc_tunnel"}
    if "vpn_values" in several or FIXED_RATE in values.get("vpn_values", ""):
        left.pop("vpn_values", None)
    if left.get("vpn", "none") == "none":
        return left
    control, own = values.get("cc_tunnel", SAME), values.get("vpn_values", "none")
    carrier = carrier_of(left["vpn"])
    if (carrier in STREAMS and "cc_tunnel" in several) or (carrier is None and control != SAME):
        left["vpn"] += f" cc_tunnel={control}"
    if own != "none" and ("vpn_values" in several or FIXED_RATE in own):
        left["vpn"] += "".join(f" vpn.{setting}" for setting in own.split(";"))
    return left


def _with_pep(values: Mapping[str, str], several: Iterable[str]) -> dict[str, str]:
    """Return values in which `pep` has its own control and window: `B cc_pep=bbr2`.

    Its program is named if there are several.
    """
    own = {k: v for k, v in values.items() if k.endswith("_pep") or k.startswith("pep_")}
    left = {name: value for name, value in values.items() if name not in own}
    if "pep_program" not in several:
        own.pop("pep_program", None)
    if left.get("pep", "none") != "none":
        unusual = {k: v for k, v in own.items() if v not in (SAME, "none", "plain", "")}
        left["pep"] += "".join(f" {name}={value}" for name, value in unusual.items())
    return left


def _lossless(cells: Sequence[Cell]) -> set[str]:
    """Return the link files, of satellites too, that are seen to lose nothing by themselves."""
    lost: dict[str, float] = {}
    for cell in cells:
        counts = [*chain(*(cell.measured(measure).values() for measure in (LOST, LOST_BACK)))]
        if counts and number(cell.values.get("loss", "0")) == 0:
            file = file_of(cell.values)
            lost[file] = max(lost.get(file, 0.0), *counts)
    return {file for file, most in lost.items() if not most}


def _link(values: Mapping[str, str], lossless: Collection[str]) -> dict[str, str]:
    """Return values whose link is named by its file, and whose loss is the link's own.

    A loss that was asked for comes on top of a file's.
    """
    link = dict(values)
    if link.get("link_file", "none") != "none":
        link["orbit"] = Path(link["link_file"]).stem
    own = number(link.get("loss", "")) == 0 and (file := file_of(link)) and file not in lossless
    if "loss" in link and (own or not is_numeral(link["loss"])):
        link["loss"] = OWN
    return link


def _seeds(cell: Cell, measure: str) -> int:
    estimate = cell.estimate(measure)
    return estimate.seeds if estimate else 0


def has_fixed_rate(cell: Cell) -> bool:
    """Return whether it sends without congestion control, at a rate that it was given."""
    return any(FIXED_RATE in cell.values.get(name, "") for name in CHOSEN)
