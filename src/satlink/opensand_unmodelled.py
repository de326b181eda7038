# SPDX-License-Identifier: GPL-3.0-or-later
"""Elements of OpenSAND's files that nobody has read, each with why it is not modelled."""

from __future__ import annotations

from collections.abc import Sequence

from satlink.xml_file import Element, printable

NOT_MODELLED: dict[str, dict[str, str]] = {
    "topology": {
        "frequency_plan/spots": "another spot, carrier or group, which this terminal does not use",
        "st_assignment": "other terminals' groups: every terminal here uses one group's carriers",
        "wave_forms/dvb_s2": "other MODCODs: ACM chooses among those of DVB-S2 itself",
        "wave_forms/dvb_rcs2": "other waveforms: every terminal keeps one, there is no ACM loop",
        "advanced_settings/links/forward_duration": "frames are sent one after another",
        "advanced_settings/schedulers/crdsa": "random access for data: here it is for requests",
        "advanced_settings/schedulers/pep_allocation": "a PEP's requests",
        "advanced_settings/timers/acm_refresh": "the ACM loop: a waveform is kept",
        "advanced_settings/timers/statistics": "how often OpenSAND reports",
        "advanced_settings/delay": "how OpenSAND holds packets for the delay",
    },
    "infrastructure": {
        "": "addresses, ports and logs of OpenSAND's machines: the inventory has the hosts here",
    },
    "terminal": {
        "network/st_fifos": "another FIFO's size or name: all classes here have the BE one's",
        "network/qos_classes": "another class: here the DSCP's upper three bits say it",
        "network/virtual_connections": "connections of Ethernet: the link carries IP",
        "network/qos_settings": "VLANs and default priority of Ethernet: the link carries IP",
        "encap/gse": "GSE's fragments in parallel: one packet is cut at a time",
        "access/random_access": "random access for data: here it is for requests",
        "access/settings/category": "the control centre takes the group of the topology",
        "access/scpc": "SCPC carriers",
        "access2": "SCPC carriers",
        "physical_layer/minimal_condition": "what is too noisy to be received: nothing fades here",
        "physical_layer/error_insertion": "frames that noise destroys: give loss",
        "physical_layer": "weather: the terminal has the waveform of a clear sky",
    },
    "gateway": {
        "network/gw_fifos": "all queues of the forward link have the size buffer",
        "network/qos_classes": "classes: here the DSCP's upper three bits say them",
        "network/virtual_connections": "connections of Ethernet: the link carries IP",
        "network/qos_settings": "VLANs and default priority of Ethernet: the link carries IP",
        "network/simulation": "how OpenSAND's simulated terminals ask beyond their rate",
        "network/event_file": "a record of requests; the counters of dama have them",
        "encap": "GSE's fragments in parallel: one packet is cut at a time",
        "access": "random access for data: here it is for requests",
        "physical_layer/minimal_condition": "what is too noisy to be received: nothing fades here",
        "physical_layer/error_insertion": "frames that noise destroys: give loss",
        "physical_layer": "weather: the terminal has the waveform of a clear sky",
    },
}
"""A kind of file → the beginning of a path → why what nobody has read there is not modelled."""


def not_read(kind: str, root: Element) -> list[str]:
    """Return a line for each element that nobody has read, or for several with one reason."""
    groups: list[tuple[str, str, list[Element]]] = []
    for leaf in root.leaves():
        if leaf.is_read or not leaf.text:
            continue
        beginning, reason = _reason(kind, leaf.path)
        if groups and beginning and groups[-1][0] == beginning:
            groups[-1][2].append(leaf)
        else:
            groups.append((beginning, reason, [leaf]))
    return [_line(reason, leaves) for _, reason, leaves in groups]


def _reason(kind: str, path: str) -> tuple[str, str]:
    """Return the beginning of a path that has a reason, and the reason."""
    for beginning, reason in NOT_MODELLED[kind].items():
        if path.startswith(beginning):
            return beginning or kind, reason
    return "", "is not known: nothing was made of it"


def _line(reason: str, leaves: Sequence[Element]) -> str:
    first, last = leaves[0], leaves[-1]
    name = printable(first.file.name)
    if first is last:
        return f"{name}, line {first.line}: {first.path} = {printable(first.text)}: {reason}"
    return (
        f"{name}, lines {first.line} to {last.last_line}: {len(leaves)} values from"
        f" {first.path}: {reason}"
    )
