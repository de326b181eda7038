# SPDX-License-Identifier: GPL-3.0-or-later
"""What each sentence and row of page 1 has to be true of, by the second reader of the results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

from helpers.page_reader import (
    LEAST,
    MORE,
    SPAN,
    Configuration,
    Faults,
    Ratio,
    Reader,
    ends,
    fits,
    names_in,
    tokens_of,
)  # fmt: skip

NUMBER = r"−?[\d.]+(?:e[+-]\d+)?"
CLIFF = r" \(not above \d+ % loss\)"
UNIT = r"(?: (?:s|ms|%|Mbit/s))?"


class Checker:
    """Checks page 1 of one results.parquet."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.faults = Faults()
        self.measure = ""
        self.avoided: set[tuple[str, str]] = set()
        self.rules: list[tuple[str, Callable[[re.Match[str]], None]]] = [
            (r"(?P<vpns>.+) are equivalent: within 5 % in each measure.*", self.equivalent),
            (r"Between (?P<one>.+) and (?P<others>.+) no difference of more than 5 % is shown.*", self.close),
            (rf"[^:]+: (?P<measure>[^.,]+?)(?:,.*)?\. All medians are (?P<span>{SPAN}){UNIT}; (?P<bounds>.*)\.", self.head),
            (r"Nothing is claimed: .*--seeds 5", self.no_claim),
            (r"[^:]+ (?:decides|changes the .+ most, but by less than 10 %): (?P<series>.+)\.", self.decides),
            (r"Customers with the PEP at (?P<pep>.+?): (?P<told>.+)\.", self.behind),
            (rf"One configuration was run: .+? (?P<value>{NUMBER}){UNIT}\.", self.one),
            (r"(?P<here>(?:TCP|QUIC) .+?) instead of (?P<there>.+?)(?P<others>(?:, no VPN)?(?:, no PEP)?): (?P<told>.+)\.", self.instead),
            (r"(?P<here>PEP .+?) instead of no PEP, (?P<hosts>.+?): (?P<told>.+)\.", self.pep),
            (r"With (?P<vpns>.+?) the PEP at (?P<pep>.+?) no longer helps: (?P<told>.+)\.", self.taken),
            (r"(?P<vpns>.+?) (?:costs?|changes? the .+? by) (?P<told>[+−].+?) (?:of the .+? without|against no) VPN(?P<rest>.*)\.", self.cost),
            (r"Avoid (?P<told>.+)\.", self.avoid),
            (r"(?P<vpn>.+) is not the best everywhere: (?P<told>.+)\.", self.caveat),
            (r"(?P<here>PEP .+?) makes the .+ better in \d+ of \d+ comparisons, and worse in \d+ \((?P<hosts>.+?)\): at best (?P<told>.+)\.", self.pep),
            (r"(?P<vpn>.+) has no congestion control, so only on a leased rate: .+\.", self.leased),
            (r"No difference .+\.", self.no_difference),
            (r"Not compared: .+\.", self.not_compared),
            (r"(?:No transport|No PEP|Nothing is advised) .+\.", self.none),
            (r".+ changes the .+ in \d+ of \d+ comparisons only\.", self.none),
            (r"(?:Chance matters most|The parts where|Up to .+ of the pings|Of \d+ runs|A change in % is).+\.", self.none),
        ]  # fmt: skip

    def fault(self, text: str, why: str) -> None:
        self.faults.append(f"{why}: {text}")

    def sentence(self, text: str) -> None:
        """Check a sentence."""
        self.faults.tried += 1
        text = re.sub(CLIFF, "", text.replace("(own TCP: ", "(own TCP "))
        for pattern, check in self.rules:
            if found := re.fullmatch(pattern, text):
                return check(found)
        self.fault(text, "cannot be read")

    def _median(self, told: str, found: Sequence[Configuration], text: str) -> None:
        if not found:
            self.fault(text, "no such run")
        elif not any(fits(told, one.median(self.measure)) for one in found):
            values = [round(one.median(self.measure), 3) for one in found]
            self.fault(text, f"{told} is not in {values[:4]}")

    def _ratios(self, here: str, there: str) -> Iterator[tuple[str, Ratio | None]]:
        """Yield each measure of two VPNs, and the ratio of what differs in nothing else."""
        for measure in self.reader.measures:
            for pair in self.reader.pairs(measure, 1, here, there):
                yield measure, self.reader.ratio(measure, *pair)

    def equivalent(self, found: re.Match[str]) -> None:
        for here, there in combinations(names_in(found["vpns"]), 2):
            ratios = [*self._ratios(here, there)]
            for measure, one in ratios:
                if one is None or one[1] < 1 / 1.0501 or one[2] > 1.0501:
                    self.fault(found[0], f"{measure}: {one}")
            if not ratios:
                self.fault(found[0], f"{here} and {there} were never compared")

    def close(self, found: re.Match[str]) -> None:
        for other in names_in(found["others"]):
            for measure, one in self._ratios(other, found["one"]):
                if one and (one[2] < 1 / 1.0501 or one[1] > 1.0501):
                    self.fault(found[0], f"{other}, {measure}: {one}")

    def head(self, found: re.Match[str]) -> None:
        self.measure = found["measure"]
        every = self.reader.of(self.measure)
        if not every:
            return self.fault(found[0], "no such measure")
        medians = [one.median(self.measure) for one in every]
        least, most = ends(found["span"])
        if not fits(least, min(medians)) or not fits(most, max(medians)):
            self.fault(found[0], f"medians are {min(medians)} to {max(medians)}")
        losses = set().union(*(one.names["loss"] for one in every))
        lost = max((float(one.split()[1]) for one in losses if one.startswith("at ")), default=0)
        told = re.search(r"at (?:up to )?([\d.]+) % loss", found["bounds"])
        if told and float(told[1]) != lost:
            self.fault(found[0], f"{lost} % was the most loss")
        if "without loss" in found["bounds"] and "without loss" not in losses:
            self.fault(found[0], "packets were lost")

    def no_claim(self, found: re.Match[str]) -> None:
        if any(len(one.values[self.measure]) >= LEAST for one in self.reader.of(self.measure)):
            self.fault(found[0], "there are seeds enough")

    def not_compared(self, found: re.Match[str]) -> None:
        cells = self.reader.of(self.measure)
        if "with fewer than" in found[0] and all(
            len(one.values[self.measure]) >= LEAST for one in cells
        ):
            self.fault(found[0], "each cell has seeds enough")
        if "never varied alone" in found[0] and len(cells) < 2:
            self.fault(found[0], "there is one cell")

    def one(self, found: re.Match[str]) -> None:
        self._median(found["value"], self.reader.of(self.measure), found[0])

    def decides(self, found: re.Match[str]) -> None:
        series = re.sub(r" \(background: [\d.]+ Mbit/s\)", "", found["series"])
        for group in series.replace("; by more: ", "; ").split("; "):
            match = re.fullmatch(rf"(?:(.*?): )?({NUMBER}{UNIT} .*)", group)
            context, values = (match[1] or "", match[2]) if match else ("", group)
            told = []
            parts = rf"(?:, | and )(?={NUMBER}{UNIT} (?:with|without|at|over) )"
            for one in re.split(parts, values):
                number = re.match(rf"({NUMBER}){UNIT} (.+)", one)
                if number is None:
                    self.fault(found[0], f"cannot read {one}")
                    continue
                named = [*tokens_of(context), *tokens_of(number[2])]
                runs = self.reader.called(self.measure, named)
                self._median(number[1], runs, found[0])
                told += runs[:1]
            if len(told) > 1 and not any(self._apart(*pair) for pair in combinations(told, 2)):
                self.fault(found[0], "no difference")

    def behind(self, found: re.Match[str]) -> None:
        pep = found["pep"]
        for part in re.findall(
            rf"({NUMBER}){UNIT} with (.+?) instead of ({NUMBER}){UNIT} without VPN \(([+−]\d+) %\)(?:, (.+?))?(?=; |$)",
            found["told"].removeprefix(f"{self.measure} "),
        ):
            context = [pep, *tokens_of(part[4])]
            here = self.reader.called(self.measure, [part[1], *context])
            there = self.reader.called(self.measure, ["no VPN", *context])
            self._median(part[0], here, found[0])
            self._median(part[2], there, found[0])
            pairs = self.reader.pairs(self.measure, 1, part[1], "none")
            ratios = [self.reader.ratio(self.measure, *pair) for pair in pairs if pair[0] in here]
            told = f"{part[3]}".replace("−", "-")
            if not any(one and fits(told, 100 * (one[0] - 1), percent=True) for one in ratios):
                self.fault(found[0], f"{part[3]} % is not of {ratios[:3]}")
        helped = self.reader.pairs(self.measure, 2, pep, "no PEP")
        if not any(self._is_better(*pair) for pair in helped if pair[0].key[1] == "none"):
            self.fault(found[0], "the PEP helps no customer without a VPN")

    def _apart(self, one: Configuration, other: Configuration) -> bool:
        ratio = self.reader.ratio(self.measure, one, other)
        return ratio is not None and (ratio[1] > 1.0099 or ratio[2] < 1 / 1.0099)

    def _is_better(self, one: Configuration, other: Configuration, by: float = 1.0099) -> bool:
        ratio = self.reader.ratio(self.measure, one, other)
        more = self.measure.startswith(MORE)
        return ratio is not None and (ratio[1] > by if more else ratio[2] < 1 / by)

    def instead(self, found: re.Match[str]) -> None:
        told = found["told"].partition(", at ")[0].partition(", with")[0]
        figures = rf"(?P<a>{SPAN}){UNIT} instead of (?P<b>{SPAN}){UNIT}"
        for part in told.split("; "):
            match = re.match(rf"(?:(?P<link>(?:over|with) .+?) )?{figures}", part)
            if match is None:
                continue
            for name, text in ((found["here"], match["a"]), (found["there"], match["b"])):
                context = [*tokens_of(match["link"] or ""), *tokens_of(found["others"]), name]
                runs = self.reader.called(self.measure, context)
                for end in ends(text):
                    self._median(end, runs, found[0])
        pairs = list(self.reader.pairs(self.measure, 0, found["here"], found["there"]))
        if pairs and not any(self._is_better(*pair) for pair in pairs):
            self.fault(found[0], "better nowhere")

    def pep(self, found: re.Match[str]) -> None:
        best = re.sub(r", at worst .*?(?=, (?:at |with its|without )|$)", "", found["told"])
        loss = re.search(r", ((?:at (?!up|worst)|with its own|without).*? loss\b)", found["told"])
        for part in re.findall(
            rf"({NUMBER}){UNIT}(?: (with .+?|without VPN))? instead of ({NUMBER}){UNIT}(?: (over .+?|with .+?))?(?=, (?:{NUMBER}{UNIT} |at |without |with its|and )|;|$)",
            best,
        ):
            context = [part[1], *tokens_of(part[3]), found["hosts"], loss[1] if loss else ""]
            here = self.reader.called(self.measure, [*context, found["here"]])
            there = self.reader.called(self.measure, [*context, "no PEP"])
            self._median(part[0], here, found[0])
            self._median(part[2], there, found[0])
            pairs = [pair for pair in product(here, there) if pair[0].key[3] == pair[1].key[3]]
            if here and there and not any(self._is_better(*pair) for pair in pairs):
                self.fault(found[0], "not better")

    def taken(self, found: re.Match[str]) -> None:
        match = re.match(
            rf"({NUMBER}){UNIT} instead of ({NUMBER}){UNIT} with (.+?), ({NUMBER}){UNIT} instead of ({NUMBER}){UNIT} without VPN(?:, (.*))?$",
            found["told"],
        )
        if match is None:
            return self.fault(found[0], "cannot read the figures")
        told = zip(
            (match[1], match[2], match[4], match[5]),
            (match[3], match[3], "no VPN", "no VPN"),
            strict=True,
        )
        for place, (number, vpn) in enumerate(told):
            pep = "no PEP" if place % 2 else found["pep"]
            context = [vpn, pep, *tokens_of(match[6] or "")]
            self._median(number, self.reader.called(self.measure, context), found[0])
        for vpn in names_in(found["vpns"]):
            for one, bare in self.reader.pairs(self.measure, 1, vpn, "none"):
                key = (self.measure, (*bare.key[:2], "no PEP", bare.key[3]))
                plain = self.reader.found.get(key) if found["pep"] in bare.names["pep"] else None
                own = self.reader.found.get((self.measure, (*one.key[:2], "no PEP", one.key[3])))
                is_gone = own and not self._is_better(one, own)
                if plain and self._is_better(bare, plain) and is_gone:
                    break
            else:
                self.fault(found[0], f"not by {vpn}")

    def cost(self, found: re.Match[str]) -> None:
        rest = tokens_of(found["rest"])
        told = re.findall(
            r"([+−][\d.]+)(?: to ([+−][\d.]+))? % \[(−?[\d.]+)(?:–| to )(−?[\d.]+)\](?: \(((?:[^()]|\([^()]*\))+)\))?",
            found["told"],
        )
        if not told:
            self.fault(found[0], "no figures")
        for low, high, least, most, context in told:
            named = [*rest, *tokens_of(context)]
            pairs = [
                pair
                for vpn in names_in(found["vpns"])
                for pair in self.reader.pairs(self.measure, 1, vpn, "none")
                if pair[0].is_called(named)
            ]
            ratios = [one for pair in pairs if (one := self.reader.ratio(self.measure, *pair))]
            if not ratios:
                self.fault(found[0], f"no comparison {context}")
                continue
            medians, lows, highs = zip(*ratios, strict=True)
            real = (min(medians), max(medians), min(lows), max(highs))
            for text, value in zip((low, high or low, least, most), real, strict=True):
                if not fits(text, 100 * (value - 1), percent=True):
                    self.fault(found[0], f"{text} is {100 * (value - 1):.2f} ({context})")

    def avoid(self, found: re.Match[str]) -> None:
        told = re.sub(r"; and \d+ others?$", "", found["told"])
        for part in told.split("; "):
            vpn, _, beside = part.partition(": ")
            self.avoided.add((self.measure, vpn))
            if not (other := self._beside(vpn, beside, found[0])):
                continue
            pairs = list(self.reader.pairs(self.measure, 1, vpn, other))
            if any(self._is_better(*pair, 1.05) for pair in pairs):
                self.fault(found[0], "better somewhere")
            if not any(self._is_better(*pair[::-1]) for pair in pairs):
                self.fault(found[0], "worse nowhere")

    def _beside(self, vpn: str, told: str, text: str) -> str:
        """Check two VPNs' medians, and return the name of the other VPN."""
        match = re.match(
            rf"(?P<a>{NUMBER}){UNIT} instead of (?P<b>{NUMBER}){UNIT} with (?P<other>.+?) \([+−]\d+ %\)(?:, (?P<context>.*))?$",
            told,
        )
        if match is None:
            self.fault(text, f"cannot read {told}")
            return ""
        for name, value in ((vpn, match["a"]), (match["other"], match["b"])):
            runs = self.reader.called(self.measure, [*tokens_of(match["context"] or ""), name])
            self._median(value, runs, text)
        return match["other"]

    def caveat(self, found: re.Match[str]) -> None:
        if other := self._beside(found["vpn"], found["told"], found[0]):
            pairs = self.reader.pairs(self.measure, 1, other, found["vpn"])
            if not any(self._is_better(*pair) for pair in pairs):
                self.fault(found[0], "worse nowhere")

    def _is_within_a_round(self, one: Configuration, other: Configuration) -> bool:
        delay = "" if "page" in self.measure else dict(one.key[3]).get("delay_ms", "")
        apart = abs(one.median(self.measure) - other.median(self.measure))
        return delay.replace(".", "").isdigit() and apart < 2 * float(delay) / 1000

    def leased(self, found: re.Match[str]) -> None:
        if "fixed:" not in found["vpn"]:
            self.fault(found[0], "it has a control")

    def none(self, found: re.Match[str]) -> None:
        """Take as true a sentence that has no figures of runs."""

    def no_difference(self, found: re.Match[str]) -> None:
        for one, other in combinations(self.reader.of(self.measure), 2):
            differ = sum(here != there for here, there in zip(one.key, other.key, strict=True))
            if differ != 1 or one.key[3] != other.key[3] or one.leased or other.leased:
                continue
            ratio = self.reader.ratio(self.measure, one, other)
            is_apart = ratio and (ratio[1] > 1.2 or ratio[2] < 1 / 1.2)
            if is_apart and not self._is_within_a_round(one, other):
                self.fault(found[0], f"{one.key} {other.key} {ratio}")

    def row(self, row: Sequence[str], header: Sequence[str], only: str) -> None:
        """Check a row of the table."""
        self.faults.tried += 1
        row = [one.replace("(own TCP: ", "(own TCP ") for one in row]
        text = " | ".join(row)
        cells = dict(zip(header, row, strict=True))
        self.measure = cells.get("measure", only)
        vpns, rest = self._configuration(cells["use"])
        links = {one.key[3] for one in self.reader.of(self.measure)}
        for vpn in vpns:
            runs = self.reader.called(self.measure, [vpn, *rest])
            at = {
                one.key[3] for one in runs if len(one.values[self.measure]) == one.planned >= LEAST
            }
            if links - at:
                self.fault(text, f"{vpn} was not run on {len(links - at)} of {len(links)} links")
            if runs and all(one.leased for one in runs):
                self.fault(text, "it has no congestion control")
            if (self.measure, vpn) in self.avoided:
                self.fault(text, f"{vpn} is to be avoided")
        worst, _, told = row[-1].rpartition(": ")
        bad, _, good = told.partition(" instead of ")
        other, others = self._configuration(worst)
        figures = [(bad, [*other, *others])]
        figures += [(one, [*vpns[:1], *rest]) for one in (good, *row[header.index("use") + 1 : -1])]
        for told, context in figures:
            runs = self.reader.called(self.measure, context)
            for number in re.findall(NUMBER, re.sub(r"\(.*?\)", "", told.replace("to", ","))):
                self._median(number, runs, text)

    @staticmethod
    def _configuration(use: str) -> tuple[list[str], list[str]]:
        """Return the VPNs that a row names, and its transport and PEP."""
        told = tokens_of(re.sub(CLIFF, "", use))
        rest = [one for one in told if re.match(r"TCP |QUIC \(|no PEP|PEP ", one)]
        return names_in(", ".join(one for one in told if one not in rest)), rest


def check(
    reader: Reader, sentences: Sequence[str], header: Sequence[str], rows: Sequence[Sequence[str]]
) -> Faults:
    """Return what page 1 says and the results deny."""
    checker = Checker(reader)
    for one in sentences:
        checker.sentence(one)
    heads = [one for one in sentences if "All medians are" in one]
    first = re.match(r"[^:]+: ([^.,]+?)(?:,.*)?\. All", heads[0]) if heads else None
    for row in rows:
        checker.row(row, header, first[1] if first else "")
    return checker.faults
