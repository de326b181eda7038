# SPDX-License-Identifier: GPL-3.0-or-later
"""A VPN's own options as settings.

They are the constant vpn_values; which VPN has which; what the job makes of them.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

from openbach_run.campaign.file import plan_file
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.reading import parse_settings, plan
from openbach_run.campaign.vpn_folder import MTU, SET_BY_JOB, SETUP, TAKES, check_vpn_values, vpn_of
from openbach_run.campaign.vpn_values import folded, read_values, setting_of
from openbach_run.catalog import Catalog, description
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
VPNS = Catalog().all("vpn-configs")
folders = importlib.import_module("vpn_folders")
tunnel_mtu = importlib.import_module("tunnel_mtu")


def campaign(*settings: str, scenario: str = "geo") -> Campaign:
    return plan(ROOT / f"scenarios/{scenario}.yml", settings, (1,), PACKAGES)


def values(*settings: str) -> tuple[str, ...]:
    return campaign("vpn=openvpn_udp", "cc=cubic", *settings).values["vpn_values"]


# Settings


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ((), ("none",)),
        (("vpn.cipher=AES-256-CBC",), ("cipher=AES-256-CBC",)),
        (("vpn.keepalive=10", "vpn.cipher=AES-256-CBC"), ("keepalive=10;cipher=AES-256-CBC",)),
        (
            ("vpn.cipher=AES-256-CBC,AES-256-GCM", "size=1M", "vpn.keepalive=5,10"),
            (
                "cipher=AES-256-CBC;keepalive=5",
                "cipher=AES-256-CBC;keepalive=10",
                "cipher=AES-256-GCM;keepalive=5",
                "cipher=AES-256-GCM;keepalive=10",
            ),
        ),
        (("vpn.cipher=default,AES-256-CBC",), ("none", "cipher=AES-256-CBC")),
        (("vpn.options=--mssfix 1300",), ("options=--mssfix 1300",)),
        (("vpn.options=--setenv A=B --mssfix 1300",), ("options=--setenv A=B --mssfix 1300",)),
        (("vpn_values=cipher=AES-256-CBC;keepalive=10",), ("cipher=AES-256-CBC;keepalive=10",)),
    ],
)
def test_all_together_are_the_sweep_of_one_constant(
    settings: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    assert values(*settings) == texts


def test_a_cell_is_run_again_by_what_its_record_says() -> None:
    (cell,) = campaign(
        "vpn=openvpn_udp", "cc=cubic", "vpn.options=--mssfix 1300", "vpn.keepalive=9"
    ).cells
    again = campaign(*(f"{name}={value}" for name, value in cell.items()))
    assert again.cells == [cell]


def test_a_setting_belongs_to_its_constant() -> None:
    assert [setting_of(name) for name in ("vpn.cipher", "vpn", "cc")] == ["vpn_values", "vpn", "cc"]
    assert folded(parse_settings(["cc=bbr"])) == {"cc": ("bbr",)}
    assert read_values("cipher=A;options=--a b=c") == {"cipher": "A", "options": "--a b=c"}


CAMPAIGN = """
seeds: 1
scenarios:
  - scenario: geo
    values: {vpn: [openvpn_udp], cc: [cubic], vpn.cipher: [AES-256-CBC, AES-256-GCM], vpn.keepalive: [10]}
  - scenario: lan_tcp
    values: {vpn: [wireguard], vpn.keepalive: [25]}
"""


def test_a_campaign_file_has_them_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(CAMPAIGN)
    geo, lan = plan_file(file, (), None, PACKAGES, Catalog())
    assert geo.values["vpn_values"] == (
        "cipher=AES-256-CBC;keepalive=10",
        "cipher=AES-256-GCM;keepalive=10",
    )
    assert lan.values["vpn_values"] == ("keepalive=25",)
    geo, lan = plan_file(file, ("vpn.keepalive=7",), None, PACKAGES, Catalog())
    assert geo.values["vpn_values"] == (
        "cipher=AES-256-CBC;keepalive=7",
        "cipher=AES-256-GCM;keepalive=7",
    )
    assert lan.values["vpn_values"] == ("keepalive=7",)


def test_yamls_on_and_off_are_told(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text(
        "scenarios: [{scenario: geo, values: {vpn: [none], cc: [cubic], sack: [on, off]}}]"
    )
    with pytest.raises(
        InputError,
        match=r"scenarios\.0\.values\.sack: YAML takes on, off, yes and no for true and false",
    ):
        plan_file(file, (), None, PACKAGES, Catalog())


# What is refused


REFUSED = {
    "vpn=wireguard vpn.keepalife=25": "vpn.keepalife=25: wireguard does not read it; did you mean keepalive? it has",
    "vpn=wireguard vpn.cipher=AES-256-CBC": "vpn.cipher=AES-256-CBC: wireguard does not read it; it has clamp, keepalive, mtu, post_up, pre_up, psk, setup",
    "vpn=openvpn_udp,wireguard vpn.cipher=AES-256-CBC": "wireguard does not read it",
    "vpn=none vpn.cipher=AES-256-CBC": "vpn.cipher=AES-256-CBC: there is no VPN that could have it (vpn=none)",
    "vpn=none,openvpn_udp vpn.cipher=AES-256-CBC": "there is no VPN that could have it",
    "vpn=yggdrasil vpn.cipher=x": "yggdrasil does not read it; it has clamp, mtu, setup",
    "vpn=yggdrasil vpn.carrier=tcp": "yggdrasil has it fixed",
    "vpn=strongswan vpn.encap=yes": "give vpn=strongswan (encap=no) or strongswan_udp (encap=yes)",
    "vpn=openvpn_tcp vpn.wrapper=reboot": "openvpn_tcp has it fixed",
    "vpn=wireguard vpn.mtu=100": "wireguard: 100 should be bytes from 576 to 59999",
    "vpn=wireguard vpn.clamp=no": "wireguard: no should be on or off",
    "vpn=strongswan_policies vpn.mtu=1300": "has no interface whose MTU could be set",
    "vpn=quic_split vpn.clamp=off": "quic_split: TCP ends before the tunnel",
    "vpn=openvpn_udp vpn.clamp=off vpn.mssfix=1300": "mssfix says the segment size itself",
    "vpn=openvpn_dco vpn_values=options=--mssfix_0": "do not heed: give vpn.clamp=on or off",
    "vpn=openvpn_udp vpn.rtt_s=1": "rtt_s is no value of a VPN",
    "vpn=openvpn_udp vpn.cipher=BF-OFB": "how many bytes the cipher BF-OFB adds is not known",
    "vpn=openvpn_udp vpn.keepalive=abc": "openvpn_udp: abc should be seconds, as 10",
    "vpn=openvpn_udp vpn.keepalive=x": "openvpn_udp: x should be seconds, as 10",
    "vpn=wireguard vpn.psk=yes": "wireguard: yes should be on or off",
    "vpn=nebula vpn.cipher=AES": "nebula: AES should be aes or chachapoly",
    "vpn=openvpn_udp vpn.cipher=A vpn.cipher=B": "vpn.cipher is given twice; to sweep it: vpn.cipher=A,B",
    "vpn=openvpn_udp vpn.cipher=A vpn_values=none": "vpn.cipher and vpn_values are the same setting",
    "vpn=openvpn_udp vpn_values=cipher=AES-256-GCM;cipher=AES-256-CBC": "cipher is given twice",
    "vpn=openvpn_udp vpn_values=cipher": "vpn_values is none, or like cipher=AES-256-CBC;keepalive=10",
    "vpn=openvpn_udp vpn.options=$(reboot)": "of letters, digits, blanks and",
    "vpn=openvpn_udp vpn.options=*": "of letters, digits, blanks and",
}


@pytest.mark.parametrize(("settings", "words"), REFUSED.items())
def test_what_a_vpn_does_not_have_is_refused(settings: str, words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        campaign("cc=cubic", *settings.split())


def test_a_scenario_without_a_vpn_has_none() -> None:
    with pytest.raises(InputError, match=r"vpn\.cipher=A: star has no argument vpn_values"):
        plan(ROOT / "library/topologies/star.json", ["vpn.cipher=A"], (1,), PACKAGES)


def test_a_second_tunnel_has_the_same_and_none_shares_the_first() -> None:
    flows = ("pep=none", "orbit=geo", "vpn.cipher=AES-256-CBC")
    for vpns in (
        ("vpn=openvpn_udp",),
        ("vpn=none", "vpn_2=openvpn_udp"),
        ("vpn=openvpn_udp", "vpn_2=openvpn_tcp"),
    ):
        assert campaign(*vpns, *flows, scenario="multi_flow").cells
    with pytest.raises(InputError, match="wireguard does not read it"):
        campaign("vpn=openvpn_udp", "vpn_2=wireguard", *flows, scenario="multi_flow")


def test_costs_of_a_cpu_are_said_to_be_those_of_the_vpns_own_values() -> None:
    cpu = ("vpn=openvpn_udp", "cc=cubic", "cpu=vm_epyc_2600")
    (note,) = notes_of(campaign(*cpu, "vpn.cipher=AES-256-CBC"))
    assert "was measured with the VPN's own values, not with these" in note
    assert notes_of(campaign(*cpu)) == []
    assert notes_of(campaign("vpn=openvpn_udp", "cc=cubic", "vpn.cipher=AES-256-CBC")) == []


# VPNs


def values_read(scripts: Path) -> set[str]:
    """The values that scripts read, themselves or in functions of lib.sh that they call."""
    files = [
        file
        for file in scripts.iterdir()
        if file.is_file() and file.suffix not in (".md", ".json", ".patch", ".yml")
    ]
    text = re.sub(r"(?m)^\s*#.*$", "", "\n".join(file.read_text() for file in files))
    shared = (scripts.parent / "lib.sh").read_text()
    functions = dict(re.findall(r"(?ms)^(\w+)\(\) \{\n(.*?)^\}", shared))
    while called := [name for name in functions if re.search(rf"\b{name}\b", text)]:
        text += "\n".join(functions.pop(name) for name in called)
    names = {name.lower() for name in re.findall(r"\bVPN_([A-Z0-9_]+)", text)}
    return names - ({*SET_BY_JOB} - {MTU})


@pytest.mark.parametrize("vpn", sorted(VPNS))
def test_a_vpn_declares_the_values_that_its_scripts_read(vpn: str) -> None:
    scripts = VPNS[str(description(VPNS[vpn]).get("base", vpn))]
    assert {*vpn_of(vpn, VPNS)["reads"]} == values_read(scripts) | {SETUP}


def test_a_users_vpn_has_the_values_of_our_shared_scripts(tmp_path: Path) -> None:
    own = {"carrier": "UDP", "daemon": False, "inner_mtu": 1380, "overhead_bytes": 60}
    own |= {"values": {"keepalive": 25}}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/up").write_text('. "${0%/*}/../lib.sh"; echo "$VPN_KEEPALIVE $VPN_PSK"')
    vpns = {**VPNS, "mine": tmp_path / "mine"}
    (tmp_path / "mine/vpn.json").write_text(json.dumps(own))
    assert vpn_of("mine", vpns)["reads"] == ["clamp", "keepalive", "mtu", SETUP]
    with pytest.raises(InputError, match=r"vpn\.psk=on: mine does not read it"):
        check_vpn_values("mine", {"psk": "on"}, vpns, "vpn.")


def read_by(vpn: str) -> set[str]:
    return {*vpn_of(vpn, VPNS)["reads"]} - {*folders.describe(vpn)["fixed"], SETUP}


def test_the_table_of_values_is_what_the_scripts_read() -> None:
    table = (ROOT / "docs/vpns.md").read_text().partition("## Values")[2].partition("## MTU")[0]
    assert "Every VPN has `clamp`\nand `mtu`" in table
    told = {vpn: {"clamp", "mtu"} for vpn in VPNS}
    names: list[str] = []
    for row in re.findall(r"(?m)^\| (`[^|]*|) *\| (`[^|]*) \|", table):
        names = re.findall(r"`(\w+)`", row[0]) or names
        for vpn in re.findall(r"`(\w+)`", row[1]):
            told[vpn].update(names)
    assert told == {vpn: read_by(vpn) for vpn in VPNS}


@pytest.mark.parametrize("vpn", sorted(VPNS))
def test_what_a_vpn_has_itself_it_takes(vpn: str) -> None:
    described = folders.describe(vpn)
    own = {
        name: value
        for name, value in described["values"].items()
        if name not in described["fixed"] and value
    }
    check_vpn_values(vpn, own, VPNS)
    assert folders.error_in_values(vpn, own) == ""
    read = {*read_by(vpn), "setup"}  # which the job reads itself
    assert {*described["takes"], *described["fixed"]} <= {*read, *described["fixed"]}


@pytest.mark.parametrize(
    ("vpn", "text", "words"),
    [
        ("wireguard", "keepalive=25;psk=on", ""),
        ("wireguard", "cipher=x", "wireguard does not read the value cipher"),
        ("strongswan", "encap=yes", "strongswan has the value encap fixed"),
        ("wireguard", "psk=yes", "wireguard: psk=yes should be on or off"),
        ("nebula_chacha", "cipher=aes", ""),
    ],
)
def test_the_job_refuses_what_its_vpn_does_not_have(vpn: str, text: str, words: str) -> None:
    assert folders.error_in_values(vpn, folders.values_in(text)) == words


@pytest.mark.parametrize(
    "text", ["cipher", "cipher=a;cipher=b", "options=$(reboot)", "options=a\nb", "a=b;", "=b", ""]
)
def test_the_job_refuses_what_is_no_value(text: str) -> None:
    with pytest.raises(ValueError):
        folders.values_in(text)


@pytest.mark.parametrize("vpn", sorted(VPNS))
def test_the_page_and_the_job_take_the_same_of_every_vpn(vpn: str) -> None:
    assert {name: folders.describe(vpn)["takes"][name] for name in TAKES} == TAKES
    assert folders.error_in_values(vpn, {"mtu": "1420", "clamp": "off"}) == ""


def test_the_job_and_its_declaration_have_the_same_pattern() -> None:
    (declared,) = [one for one in PACKAGES["vpn"].job.arguments.optional if one.name == "values"]
    assert declared.limits["pattern"] == folders.VALUES


def test_the_mtu_follows_a_cipher_that_is_given() -> None:
    described = folders.describe("openvpn_udp", {"cipher": "AES-256-CBC"})
    assert tunnel_mtu.fitting_mtu(described, 1500) == 1419
    assert (
        tunnel_mtu.fitting_mtu(folders.describe("openvpn_udp", {"keepalive": "10"}), 1500) == 1448
    )
    assert folders.describe("openvpn_udp")["values"]["cipher"] == "AES-256-GCM"
