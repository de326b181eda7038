# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenSAND's own files (version 6 on) as a satellite whose return link has to be asked for.

Topology, the terminal's profile, and if they are given the gateway's profile and an infrastructure
become the lines of a satellite's file. What those files say beyond that is not modelled: each
element that nobody has read is named with its line and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from openbach_jobs import dama, dvbs2, netem, presets
from openbach_jobs.link_file import LinkFileError
from satlink import xml_file
from satlink.opensand_satellite import Satellite
from satlink.opensand_unmodelled import not_read
from satlink.xml_file import Element, printable

VERSION = "1.0.0"
"""Version of OpenSAND's model files, in all its versions from 6 on."""
KINDS = {
    "topology": ("frequency_plan",),
    "infrastructure": ("infrastructure", "entity"),
    "gateway": ("network/gw_fifos", "network/fca"),
    "terminal": ("access/settings", "access/dama", "network/st_fifos"),
}
"""A kind of file → what is in it and not in those below. The order matters: a profile of a gateway
has `access`, too."""
NAMES = {
    "topology": "a topology",
    "infrastructure": "an infrastructure",
    "gateway": "a gateway's profile",
    "terminal": "a terminal's profile",
}
LIFE_SUPERFRAMES = 1
"""A request lives so much longer than the time between two of them."""
SEQUENCE_NUMBER_BYTES, CRC_BYTES = 1, 4
LABEL_BYTES = 3
BITS_AGREE = 0.02
"""Part by which a waveform's bytes may differ from those that DVB-RCS2 gives this number."""
MODCODS_AGREE = 0.005
"""Part by which the efficiency of a MODCOD may differ from that in DVB-S2."""
PCP_CLASSES = {7: "NM", 6: "SIG", 5: "EF", 4: "AF", 3: "AF", 2: "AF", 1: "BE", 0: "BE"}
"""The class by the upper three bits of the DSCP: what `access: dama` does."""
CLASSES = ("NM", "EF", "SIG", "AF", "BE")
MOST_KBPS = 1_000_000
FORWARD, RETURN = "forward", "return"


class Options(NamedTuple):
    """Values that the user gives beside the files, or in place of theirs."""

    delay_ms: float | None = None
    rate_bps: float | None = None
    gateway_id: str | None = None


class Waveform(NamedTuple):
    """A waveform of a carrier: its number, its bits for each symbol, and the Es/N0 it needs."""

    number: int
    efficiency: float
    threshold_db: float
    element: Element


class Carrier(NamedTuple):
    """A carrier that the terminal uses, with the waveform that gets through."""

    element: Element
    symbols: float
    waveform: Waveform


# Which file is which


def read(paths: Sequence[Path], options: Options) -> Satellite:
    """Return the satellite of OpenSAND's files, in any order.

    Raises LinkFileError with the file, the line, and what would be right.
    """
    files: dict[str, Element] = {}
    for path in paths:
        root = _model(path)
        kind = _kind(root)
        if kind in files:
            raise LinkFileError(path, f"a second one of {NAMES[kind]}; give one")
        files[kind] = root
    for kind in ("topology", "terminal"):
        if kind not in files:
            raise LinkFileError(paths[0], f"{NAMES[kind]} is missing beside it: give it, too")
    satellite = _satellite(files, options)
    for kind, root in files.items():
        satellite.not_modelled += not_read(kind, root)
    return satellite


def _model(path: Path) -> Element:
    """Return the `root` of a model of OpenSAND. Raises LinkFileError."""
    top = xml_file.read(path)
    if top.name != "model":
        old = "; OpenSAND 5 and before had these" if top.name == "configuration" else ""
        raise top.wrong(
            f"<{printable(top.name)}> is not a file of OpenSAND from version 6 on{old}: those"
            " begin with <model>"
        )
    version = top.attributes.get("version", "")
    if version != VERSION:
        raise top.wrong(f"version {printable(version)!r} of the model is not known: {VERSION} is")
    return top.need("root")


def _kind(root: Element) -> str:
    for kind, paths in KINDS.items():
        if any(root.get(path) is not None for path in paths):
            return kind
    raise root.wrong(
        "neither frequency_plan (a topology), network (a profile of a terminal or a gateway) nor"
        " infrastructure is in it"
    )


# Values


def _satellite(files: Mapping[str, Element], options: Options) -> Satellite:
    """Return the values of a satellite. Raises LinkFileError."""
    topology, terminal, gateway = files["topology"], files["terminal"], files.get("gateway")
    for kind in ("terminal", "gateway"):
        if kind in files:
            _check_control_plane(files[kind])
    satellite = Satellite()
    spot, group = _spot(topology, files.get("infrastructure"), options, satellite)
    _put_delay(satellite, terminal, gateway, options)
    es_n0_db = _es_n0_db(terminal, gateway, satellite)
    _put_forward(satellite, topology, spot, group, es_n0_db[FORWARD], options)
    _put_buffer(satellite, terminal)
    satellite.say("access", presets.DAMA, "these files")
    _put_times(satellite, topology, terminal)
    _put_carrier(satellite, topology, spot, group, es_n0_db[RETURN])
    _put_encapsulation(satellite, terminal)
    _put_capacity(satellite, terminal)
    if gateway is not None:
        _put_gateway(satellite, gateway)
    else:
        satellite.remarks.append(
            "assumed: without the gateway's profile its delay and Es/N0 are those of the terminal,"
            " fca is 0, and no terminal is simulated"
        )
    _check_classes(satellite, terminal)
    _put_assigned(satellite)
    by_part: dict[str, dict[str, str]] = {"": {}, "dama": {}, "forward": {}}
    for name, text in satellite.values.items():
        part = "dama" if name in dama.VALUES else ""
        part = "forward" if name.startswith(dvbs2.IN_FILE) else part
        by_part[part][name.removeprefix(dvbs2.IN_FILE)] = text
    try:
        of_dama, of_forward = by_part["dama"], by_part["forward"]
        presets.in_force({}, presets.Preset(by_part[""], dama=of_dama, forward=of_forward))
    except ValueError as error:
        raise terminal.wrong(f"with {topology.file}: {error}") from None
    return satellite


def _check_control_plane(profile: Element) -> None:
    """Raise LinkFileError where the control plane, which grants capacity, is off."""
    element = profile.get("control_plane/disable_control_plane")
    if element is not None and element.flag():
        raise element.wrong("without the control plane nothing is asked for: no access: dama")


def _spot(
    topology: Element, infra: Element | None, options: Options, satellite: Satellite
) -> tuple[Element, str]:
    """Return the spot of the terminal, and its group of carriers. Raises LinkFileError."""
    defaults = topology.need("st_assignment/defaults")
    gateway, group = defaults.need("default_gateway"), defaults.need("default_group")
    own = _own_number(infra)
    for item in topology.items("st_assignment/assignments") if own else ():
        if item.need("terminal_id").text == own:
            item.need("terminal_id").read()
            gateway, group = item.need("gateway_id"), item.need("group")
    if not own:
        satellite.remarks.append(
            "assumed: the terminal has the default gateway and group; the terminal's"
            " infrastructure would say which one it is"
        )
    wanted = gateway.read() if options.gateway_id is None else options.gateway_id
    gateways = []
    for spot in topology.items("frequency_plan/spots"):
        number = spot.need("assignments/gateway_id")
        gateways.append(number.text)
        if number.text == wanted:
            for part in spot.need("assignments").children:
                part.read()  # which satellite: there is one
            _check_transparent(spot)
            return spot, group.read()
    there_are = ", ".join(map(printable, gateways[:20])) or "none"
    reason = f"no spot has the gateway {printable(wanted)!r}; there are {there_are}"
    raise topology.need("frequency_plan").wrong(reason)


def _own_number(infrastructure: Element | None) -> str:
    """Return the number of the terminal whose infrastructure it is; "" if it is none's."""
    if infrastructure is None or infrastructure.get("entity") is None:
        return ""
    kind = infrastructure.need("entity/entity_type")
    if kind.read() != "Terminal":
        return ""
    return infrastructure.need("entity/entity_st/entity_id").read()


def _check_transparent(spot: Element) -> None:
    """Raise LinkFileError for a satellite that switches packets itself."""
    for direction in (FORWARD, RETURN):
        level = spot.get(f"assignments/{direction}_regen_level")
        if level is not None and level.one_of(("Transparent", "BBFrame", "IP")) != "Transparent":
            raise level.wrong(f"{level.text}: only a transparent satellite is modelled")


def _put_delay(
    satellite: Satellite, terminal: Element, gateway: Element | None, options: Options
) -> None:
    """Put the delay of both hops together."""
    if options.delay_ms is not None:
        satellite.say("delay_ms", f"{options.delay_ms:g}", "--delay-ms")
        return
    hops_ms = []
    for profile in (terminal, gateway or terminal):
        kind = profile.need("physical_layer/delay/delay_type")
        if kind.read() != "ConstantDelay":
            raise kind.wrong(
                f"{printable(kind.text)}: a return link that has to be asked for has one constant"
                " delay; give it by --delay-ms, one way over both hops"
            )
        value = profile.need("physical_layer/delay/delay_value")
        hops_ms.append(value.whole(0, 10_000, "a delay in ms"))
    note = f"{hops_ms[0]} ms to the satellite, {hops_ms[1]} ms from there to the gateway"
    element = terminal.need("physical_layer/delay/delay_value")
    satellite.put("delay_ms", f"{sum(hops_ms)}", element, note)


def _es_n0_db(terminal: Element, gateway: Element | None, satellite: Satellite) -> dict[str, float]:
    """Return the Es/N0 of both directions in a clear sky. Raises LinkFileError."""
    by_hop = {}
    for name, profile in ((RETURN, terminal), (FORWARD, gateway or terminal)):
        by_hop[name, "uplink"] = _hop_db(profile, "uplink", satellite)
        by_hop[name, "downlink"] = _hop_db(profile, "downlink", satellite)
    combined = {}
    for name, other in ((RETURN, FORWARD), (FORWARD, RETURN)):
        up, down = by_hop[name, "uplink"], by_hop[other, "downlink"]
        combined[name] = -10 * math.log10(10 ** (-up / 10) + 10 ** (-down / 10))
    return combined


def _hop_db(profile: Element, way: str, satellite: Satellite) -> float:
    """Return the C/N of a hop in dB, with a constant attenuation. Raises LinkFileError."""
    part = profile.need(f"physical_layer/{way}_attenuation")
    clear = part.need("clear_sky").number(-100, 100, "a C/N in dB")
    kind = part.need("attenuation_type")
    if kind.read() != "Ideal":
        place = f"{printable(profile.file.name)}, line {kind.line}: {kind.path}"
        text = f"{place}: {printable(kind.text)}: no weather; the sky is clear"
        if text not in satellite.not_modelled:
            satellite.not_modelled.append(text)
        return clear
    return clear - part.need("ideal_attenuation_value").number(-100, 100, "an attenuation in dB")


def _put_forward(
    satellite: Satellite,
    topology: Element,
    spot: Element,
    group: str,
    es_n0_db: float,
    options: Options,
) -> None:
    """Put the forward link's rate: symbols of its carrier by bits of its MODCOD."""
    if options.rate_bps is not None:
        satellite.say("rate", f"{options.rate_bps:.0f}", "--rate-bps")
        return
    margins = topology.need("advanced_settings/links/forward_margin")
    margin = margins.number(0, 100, "a margin in dB")
    known = _waveforms(topology, "dvb_s2", None)
    carrier = _carrier(spot, FORWARD, ("ACM",), group, known, es_n0_db - margin)
    bps = carrier.symbols * carrier.waveform.efficiency
    _put_frames(satellite, topology, carrier, es_n0_db, margin)
    note = (
        f"{carrier.symbols / 1e6:.6g} Msymbol/s, MODCOD {carrier.waveform.number} of"
        f" {carrier.waveform.efficiency:g} bit/symbol at {es_n0_db:.2f} dB"
    )
    satellite.put("rate", f"{round(bps)}", carrier.element.need("bandwidth"), note)


def _put_frames(
    satellite: Satellite, topology: Element, carrier: Carrier, es_n0_db: float, margin_db: float
) -> None:
    """Put the forward link as frames, if its MODCOD is that of DVB-S2."""
    own = dvbs2.best(es_n0_db - margin_db)
    efficiency = carrier.waveform.efficiency
    if own is None or abs(own.efficiency - efficiency) > MODCODS_AGREE * own.efficiency:
        satellite.remarks.append(
            f"the forward link is a rate: at {es_n0_db:.2f} dB DVB-S2 has"
            f" {own.name if own else 'no MODCOD'}, and these files one of {efficiency:g} bit/symbol"
        )
        return
    settings = topology.need("advanced_settings")
    loop = settings.need("timers/acm_refresh")
    band = carrier.element.need("bandwidth")
    satellite.say("forward", presets.DVBS2, "carrier of type ACM; forward=rate is the rate above")
    satellite.put("forward_symbols", f"{round(carrier.symbols)}", band, f"{band.text} kHz")
    satellite.put("forward_es_n0_db", f"{es_n0_db:.4g}", carrier.element, "of a clear sky")
    loop_ms = loop.whole(0, 100_000, "a duration in ms")
    satellite.put("forward_loop_ms", f"{loop_ms}", loop, "of ACM")
    satellite.put("forward_margin_db", f"{margin_db:g}", settings.need("links/forward_margin"))
    satellite.say("forward_hysteresis_db", "0", "OpenSAND has none")


def _put_carrier(
    satellite: Satellite, topology: Element, spot: Element, group: str, es_n0_db: float
) -> None:
    """Put the symbol rate and the waveform of the return link."""
    margin = topology.need("advanced_settings/links/return_margin").number(0, 100, "a margin in dB")
    lengths = tuple(f"{number} sym" for number in dama.SYMBOLS.values())
    length = topology.need("advanced_settings/schedulers/burst_length").one_of(lengths)
    known = _waveforms(topology, "dvb_rcs2", length)
    carrier = _carrier(spot, RETURN, ("DAMA",), group, known, es_n0_db - margin)
    band = carrier.element.need("bandwidth")
    note = f"{band.text} kHz, roll-off {spot.need('roll_off/return').text}"
    satellite.put("symbols", f"{round(carrier.symbols)}", band, note)
    waveform = carrier.waveform
    note = f"of {carrier.element.need('wave_form').text} at {es_n0_db:.2f} dB"
    satellite.put("waveform", f"{waveform.number}", waveform.element.need("id"), printable(note))
    length_bytes = waveform.efficiency * int(length.split()[0]) / 8
    expected = dama.WAVEFORMS[waveform.number]
    if abs(length_bytes - expected) > max(BITS_AGREE * expected, 1):
        what = f"waveform {waveform.number} would carry {length_bytes:.1f} bytes in {length}"
        element = waveform.element.need("efficiency")
        raise element.wrong(f"{what}; by DVB-RCS2 it carries {expected}")


def _waveforms(topology: Element, name: str, length: str | None) -> dict[int, Waveform]:
    """Return the waveforms of a list by number, only those of a burst's length if it is options."""
    waveforms: dict[int, Waveform] = {}
    for item in topology.need(f"wave_forms/{name}").children:
        number = item.need("id")
        if length is not None and item.need("burst_length").text != length:
            continue
        texts = item.need("efficiency").text, item.need("threshold").text
        try:
            efficiency, threshold_db = map(float, texts)
            waveform = Waveform(int(number.text), efficiency, threshold_db, item)
        except ValueError:
            raise item.wrong("id, efficiency and threshold of a waveform are numbers") from None
        if waveform.number in waveforms:
            raise number.wrong(f"a second waveform {printable(number.text)}; give one")
        if not (0 < waveform.efficiency < 20 and -100 < waveform.threshold_db < 100):
            raise item.wrong("efficiency is above 0 and below 20, threshold within 100 dB of 0")
        waveforms[waveform.number] = waveform
    return waveforms


def _carrier(
    spot: Element,
    direction: str,
    types: tuple[str, ...],
    group: str,
    known: Mapping[int, Waveform],
    es_n0_db: float,
) -> Carrier:
    """Return the carrier of the group, by the best waveform that gets through.

    Raises LinkFileError if there is none.
    """
    roll_off = spot.need(f"roll_off/{direction}").number(0, 1, "a roll-off")
    by_threshold = attrgetter("threshold_db")
    carriers = []
    for item in spot.items(f"{direction}_band"):
        if item.need("type").text not in types or item.need("group").text != group:
            continue
        offered = [known[number] for number in _numbers(item.need("wave_form")) if number in known]
        if not offered:
            element, reason = item.need("wave_form"), "none of them is in wave_forms with"
            raise element.wrong(f"{printable(element.text)!r}: {reason} the burst's length")
        heard = [waveform for waveform in offered if waveform.threshold_db <= es_n0_db]
        # OpenSAND takes the most robust one as well where none gets through.
        best = max(heard, key=by_threshold) if heard else min(offered, key=by_threshold)
        khz = item.need("bandwidth").whole(1, 100_000_000, "a bandwidth in kHz")
        carriers.append(Carrier(item, khz * 1000 / (1 + roll_off), best))
    if not carriers:
        way = " --rate-bps gives a rate." if direction == FORWARD else ""
        what = f"{direction}_band has no carrier of type {' or '.join(types)}"
        raise spot.wrong(f"{what} for the group {printable(group)!r}.{way}")
    chosen = max(carriers, key=lambda carrier: carrier.waveform.threshold_db)
    for name in ("type", "group", "wave_form"):
        chosen.element.need(name).read()
    for part in chosen.waveform.element.children:
        part.read()
    return chosen


def _numbers(element: Element) -> list[int]:
    """Return the numbers of a text like `3-12;14`. Raises LinkFileError."""
    numbers: list[int] = []
    for part in element.text.split(";"):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdigit() for end in ends):
            raise element.wrong(f"{printable(element.text)!r} is not like 3-12 or 3;4;7")
        first, last = int(ends[0][:6]), int(ends[-1][:6])
        if not 0 <= first <= last <= 1000:
            raise element.wrong(f"{printable(part)!r}: from a number to a larger one, at most 1000")
        numbers += range(first, last + 1)
    return numbers


def _put_buffer(satellite: Satellite, terminal: Element) -> None:
    """Put the queue's size: that of the FIFO of best effort."""
    for item in terminal.items("network/st_fifos"):
        if item.need("name").text == "BE":
            item.need("name").read()
            size = item.need("capacity")
            size.whole(2, 1_000_000, "a number of packets")
            satellite.put("buffer", f"{size.text}p", size, "of each class")


def _put_times(satellite: Satellite, topology: Element, terminal: Element) -> None:
    """Put how time is cut, and how long requests take and live."""
    settings = topology.need("advanced_settings")
    frame = settings.need("links/return_duration")
    superframe_ms = frame.number(1, 1000, "a duration in ms")
    algorithm = terminal.need("access/dama/algorithm")
    algorithm.one_of(("Legacy",))
    satellite.put("algorithm", "opensand", algorithm, "Legacy, as it is meant")
    satellite.remarks.append(
        "algorithm: opensand is Legacy without the mistakes of OpenSAND 8.2; with them it is"
        " dama.algorithm=opensand_8_2"
    )
    satellite.put("superframe_ms", f"{superframe_ms:g}", frame)
    synchro = settings.need("timers/synchro")
    period = round(synchro.number(1, 100_000, "a duration in ms") / superframe_ms)
    if period < 1:
        raise synchro.wrong(f"{synchro.text} ms are no whole superframe of {superframe_ms:g} ms")
    note = f"{synchro.text} ms, {period} superframes"
    satellite.put("request_period_ms", f"{period * superframe_ms:.12g}", synchro, note)
    answer = terminal.need("access/dama/duration")
    superframes = answer.whole(1, 65_535, "a number of superframes")
    note = f"{superframes} superframes"
    satellite.put("request_rtt_ms", f"{superframes * superframe_ms:.12g}", answer, note)
    for name in ("rbdc_life", "vbdc_life"):
        satellite.put(name, f"{period + LIFE_SUPERFRAMES}", synchro, "one more than the period")


def _put_encapsulation(satellite: Satellite, terminal: Element) -> None:
    """Put what RLE adds to a packet."""
    kind = terminal.get("encap/rle/alpdu_protection")
    if kind is None:
        text = "assumed: packets that are cut have a sequence number (no encap/rle)"
        satellite.remarks.append(text)
        satellite.say("label_bytes", f"{LABEL_BYTES}", "OpenSAND's RLE")
        satellite.say("check_bytes", f"{SEQUENCE_NUMBER_BYTES}", "OpenSAND's RLE")
        return
    names = {"Sequence Number": SEQUENCE_NUMBER_BYTES, "CRC": CRC_BYTES}
    check_bytes = names[kind.one_of(tuple(names))]
    satellite.put("label_bytes", f"{LABEL_BYTES}", kind, "OpenSAND's RLE")
    satellite.put("check_bytes", f"{check_bytes}", kind)


def _put_capacity(satellite: Satellite, terminal: Element) -> None:
    """Put what the terminal has and may ask for."""
    enabled = terminal.need("access/settings/dama_enabled")
    if not enabled.flag():
        raise enabled.wrong("the terminal does not ask for capacity (SCPC): no access: dama")
    scpc = terminal.get("access/settings/scpc_enabled")
    if scpc is not None:
        scpc.flag()
    cra = terminal.need("access/dama/cra")
    satellite.put("cra", f"{cra.whole(0, MOST_KBPS, 'a rate in kbit/s')}k", cra)
    fifos = [item.need("access_type") for item in terminal.items("network/st_fifos")]
    kinds = {fifo.read() for fifo in fifos}
    if "SALOHA" in kinds:
        place = next(fifo for fifo in fifos if fifo.text == "SALOHA")
        satellite.not_modelled.append(
            f"{printable(terminal.file.name)}, line {place.line}: {place.path}: SALOHA: data"
            " by random access; here the class asks as the others do"
        )
    for name, unit, most in (("rbdc", "kbit/s", MOST_KBPS), ("vbdc", "kbit", 8_000_000)):
        switch = terminal.get(f"access/dama/{name}_enabled")
        largest = terminal.get(f"access/dama/{name}_max")
        if switch is None or not switch.flag():
            continue
        if largest is None:
            raise switch.wrong(f"{name}_max is missing beside it")
        value = largest.whole(0, most, f"a number of {unit}")
        if f"DAMA_{name.upper()}" not in kinds:
            satellite.remarks.append(
                f"{name}: no FIFO of the terminal has DAMA_{name.upper()}, so it is never asked for"
            )
        elif name == "rbdc":
            satellite.put("rbdc", f"{value}k", largest)
        else:
            satellite.put("vbdc_bytes", f"{value * 125}", largest, f"{value} kbit")


def _put_gateway(satellite: Satellite, gateway: Element) -> None:
    """Put what the control centre gives without being asked, and simulated terminals."""
    fca = gateway.get("network/fca")
    if fca is not None:
        satellite.put("fca", f"{fca.whole(0, MOST_KBPS, 'a rate in kbit/s')}k", fca)
    algorithm = gateway.get("network/dama_algorithm")
    if algorithm is not None:
        algorithm.one_of(("Legacy",))
    kind = gateway.get("network/simulation")
    if kind is None or kind.one_of(("None", "Random", "File")) == "None":
        return
    if kind.text == "File":
        raise kind.wrong("requests by a file of events are not modelled; choose Random or None")
    count = gateway.need("network/simulation_nb_station")
    mean = gateway.need("network/simulation_mean_requests")
    spread = gateway.need("network/simulation_amplitude_request")
    satellite.put("simulated", f"{count.whole(0, 1023, 'a number of terminals')}", count)
    if not count.whole(0, 1023, "a number of terminals"):
        return
    satellite.put("simulated_rate", f"{mean.whole(0, MOST_KBPS, 'a rate in kbit/s')}k", mean)
    # OpenSAND draws evenly within the amplitude.
    deviation_bps = spread.whole(0, MOST_KBPS, "a rate in kbit/s") * 1000 / math.sqrt(12)
    note = f"of {spread.text} kbit/s from the least to the largest"
    satellite.put("simulated_deviation", f"{deviation_bps:.0f}", spread, note)
    satellite.put("simulated_off_s", "0", kind, "they never stop")
    satellite.remarks.append("simulated terminals have the cra, rbdc and vbdc_bytes of the others")


def _put_assigned(satellite: Satellite) -> None:
    """Put the return link's rate for access=assigned: what the terminal has and may ask for."""
    texts = [satellite.values.get(name, "0") for name in ("cra", "rbdc")]
    bps = sum(netem.number(text, 0, 1e12, "a rate") for text in texts)
    bps = min(max(bps, presets.LEAST_BPS), presets.MOST_BPS)
    satellite.say(
        "return_rate", f"{bps:.0f}", "of access=assigned: cra and rbdc together, at least 32 kbit/s"
    )


def _check_classes(satellite: Satellite, terminal: Element) -> None:
    """Say which classes are others than those by the DSCP."""
    for item in terminal.items("network/qos_classes"):
        pcp = item.need("pcp").whole(0, 7, "a PCP")
        item.need("name").read()
        queue = item.need("fifo")
        if queue.text == PCP_CLASSES[pcp]:
            queue.read()
    for rank, item in enumerate(terminal.items("network/st_fifos")):
        name, priority = item.need("name"), item.need("priority")
        if rank < len(CLASSES) and (name.text, priority.text) == (CLASSES[rank], f"{rank}"):
            name.read()
            priority.read()
        if item.need("capacity").text + "p" == satellite.values.get("buffer"):
            item.need("capacity").read()
