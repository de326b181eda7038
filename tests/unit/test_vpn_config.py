# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's own VPN file: what is taken, replaced and left out, and which files are refused."""

from __future__ import annotations

import importlib
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.fake_engine import Transfers
from hypothesis import given
from hypothesis import strategies as st

from openbach_run.campaign import engines
from openbach_run.campaign.checks import check_campaign
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.reading import expanded, plan, read_with_subs, sweep_of
from openbach_run.campaign.spec import runs_of
from openbach_run.campaign.vpn_config import (
    MOST_BYTES,
    MOST_CHARACTERS,
    MOST_LINES,
    Config,
    read_config,
    table_of,
)
from openbach_run.campaign.vpn_values import of_end
from openbach_run.catalog import Catalog
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "tests/data/vpn_files"
PACKAGES = load_packages([ROOT / "jobs"])
VPNS = Catalog().all("vpn-configs")
WITH_FILES = [vpn for vpn in sorted(VPNS) if table_of(vpn, VPNS)]
folders = importlib.import_module("vpn_folders")
WG = "[Interface]\nPrivateKey = SECRET\nMTU = 1400\n[Peer]\nEndpoint = h:1\n"
OVPN = "client\nproto udp\nremote h 1\n"
Written = Callable[[str | bytes], str]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(content: str | bytes) -> str:
        file = tmp_path / "mine.conf"
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(file)

    return write


def taken(file: str, vpn: str, **values: str) -> Config:
    return read_config(file, vpn, values, VPNS)


def campaign(*settings: str) -> Campaign:
    return plan(ROOT / "scenarios/geo.yml", ["cc=cubic", *settings], (1,), PACKAGES)


# What becomes of the lines

COUNTS = {
    ("provider.conf", "wireguard"): (0, 5, 1, "clamp=off"),
    ("server.conf", "wireguard"): (1, 6, 5, "mtu=1420;psk=on;clamp=off"),
    ("phone.conf", "wireguard_go"): (
        2,
        6,
        2,
        "mtu=1280;psk=on;client-keepalive=25;clamp=off",
    ),
    ("provider.ovpn", "openvpn_udp"): (
        9,
        7,
        10,
        "client-sndbuf=524288;client-rcvbuf=524288;cipher=AES-256-GCM;mtu=1500;"
        "client-options=--ping 10 --ping-restart 60 --fast-io --reneg-sec 0 --mssfix;"
        "server-options=--mssfix",
    ),
    ("old_tcp.ovpn", "openvpn_tcp"): (
        5,
        8,
        7,
        "mtu=1500;client-options=--comp-lzo --auth SHA1 --fast-io --mssfix;"
        "server-options=--comp-lzo --auth SHA1 --mssfix",
    ),
    ("company.ovpn", "openvpn_udp"): (
        9,
        10,
        8,
        "client-sndbuf=100000;client-rcvbuf=100000;mtu=1500;"
        "client-options=--reneg-sec 604800 --comp-lzo no --tun-mtu-extra 32 --mssfix 1450;"
        "server-options=--comp-lzo no --tun-mtu-extra 32 --mssfix 1450",
    ),
}


@pytest.mark.parametrize(("file", "vpn"), COUNTS)
def test_every_line_is_taken_replaced_or_named(file: str, vpn: str) -> None:
    found = taken(str(FILES / file), vpn)
    several = [found.replaced.values(), found.left_out.values()]
    counts = [len(found.taken), *(sum(map(len, groups)) for groups in several)]
    assert (*counts, found.text) == COUNTS[file, vpn]
    assert found.text == "none" or folders.values_in(found.text) == found.values
    assert folders.error_in_values(vpn, folders.values_in(found.text, "client")) == ""
    assert folders.error_in_values(vpn, folders.values_in(found.text, "server")) == ""


@pytest.mark.parametrize(("file", "vpn"), COUNTS)
def test_no_key_address_or_command_leaves_the_file(file: str, vpn: str) -> None:
    text = (FILES / file).read_text(encoding="utf-8-sig")
    told = repr(taken(str(FILES / file), vpn).to_record())
    secrets = re.findall(
        r"[A-Za-z0-9+/=]{40,}|[0-9]+(?:[.][0-9]+){3}|[a-z.]*example.net|/etc/\S+", text
    )
    assert len(secrets) > 2
    assert [secret for secret in secrets if secret in told] == []


def test_a_file_has_every_line_that_openvpn_may_have(written: Written) -> None:
    """The guest takes it (tests/guest/test_vpn_config.py), so no line that is taken is refused."""
    found = taken(str(FILES / "all_taken.ovpn"), "openvpn_udp")
    lines = {text.split()[2] for text in found.taken}
    rules = (table_of("openvpn_udp", VPNS) or {})["rules"]
    others = {"dev-type", "ncp-ciphers", "comp-lzo", "ping", "ping-exit", "ping-restart"}
    assert lines == {*rules} - others - {"tcp-nodelay", "ecdh-curve"}
    assert found.left_out == {}


def test_a_value_beside_the_file_takes_its_place(written: Written) -> None:
    file = written(f"{OVPN}keepalive 10 60\nauth SHA1\nsndbuf 5000\n")
    found = taken(file, "openvpn_udp", keepalive="5", mssfix="1300", options="--auth SHA512")
    assert found.values == {
        "client-sndbuf": "5000",
        "mtu": "1500",
        "options": "--auth SHA1 --auth SHA512",
        "keepalive": "5",
        "mssfix": "1300",
    }
    assert found.left_out["vpn.keepalive is given"] == ["line 4 keepalive"]


def test_the_last_of_two_lines_counts(written: Written) -> None:
    found = taken(written(WG.replace("MTU", "MTU = 1380\nMTU")), "wireguard")
    assert found.values["mtu"] == "1400"
    assert found.left_out == {"line 4 says it again": ["line 3 MTU"]}


def test_an_unknown_line_is_named_unless_it_may_be_a_key(written: Written) -> None:
    key = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
    found = taken(written(f"{OVPN}keepalve 10 60\nfrobnicate\n{key}\n"), "openvpn_udp")
    (named,) = found.left_out.values()
    assert named == ["line 4 keepalve (did you mean keepalive?)", "line 5 frobnicate", "line 6"]


def test_two_vpns_of_one_run_take_the_same_of_a_file(written: Written) -> None:
    flows = [f"vpn.config={written(OVPN)}", "pep=none", "orbit=geo", "cc=cubic"]
    path = ROOT / "scenarios/multi_flow.yml"
    assert plan(path, ["vpn=openvpn_udp", *flows], (1,), PACKAGES).vpn_configs
    with pytest.raises(InputError, match="openvpn_udp and openvpn_dco take other values of it"):
        plan(path, ["vpn=openvpn_udp", "vpn_2=openvpn_dco", *flows], (1,), PACKAGES)


def test_a_vpn_that_does_not_read_a_line_leaves_it_out(written: Written) -> None:
    found = taken(written(f"{OVPN}mssfix 1400\nsndbuf 5000\n"), "openvpn_dco")
    assert found.text == "mtu=1500"
    assert {*found.left_out} == {"openvpn_dco takes no --mssfix", "openvpn_dco does not read it"}


def test_commands_are_run_only_when_asked_and_only_in_a_guest(written: Written) -> None:
    file = written(WG.replace("MTU", "PostUp = rm -rf /\nMTU"))
    assert "post_up" not in taken(file, "wireguard").text
    asked = taken(file, "wireguard", commands="on")
    assert asked.values["client-post_up"] == "cm0gLXJmIC8="  # rm -rf /
    with pytest.raises(InputError, match="commands=yes: should be on or off"):
        taken(file, "wireguard", commands="yes")
    with pytest.raises(InputError, match="openvpn_udp runs no command"):
        taken(written(OVPN), "openvpn_udp", commands="on")


def test_the_engines_without_a_guest_run_no_commands(
    written: Written, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(WG.replace("MTU", "PostUp = rm -rf /\nMTU"))
    words = ["vpn=wireguard", "cc=cubic", f"vpn.config={file}", "vpn.commands=on"]
    results = ["--results", str(tmp_path / "r")]
    assert main.main(["geo", *words, "--engine", "native", "--dry-run", *results]) == 2
    assert "its commands run in a guest only" in capsys.readouterr().err


# The value

SIX = [f"{FILES}/{name}.conf" for name in ("provider", "server", "phone")]


def test_it_is_swept_and_its_row_is_named_by_the_file() -> None:
    found = campaign("vpn=wireguard,wireguard_go", f"vpn.config={','.join(SIX)}", "vpn.psk=off")
    assert found.values["vpn_values"] == tuple(f"config={file};psk=off" for file in SIX)
    assert len(found.vpn_configs) == 6
    assert {one.values["psk"] for one in found.vpn_configs.values()} == {"off"}


def test_a_run_gets_the_values_and_its_name_follows_the_content(written: Written) -> None:
    def run(text: str) -> tuple[str, dict[str, object]]:
        settings = "vpn=wireguard", f"vpn.config={written(text)}", "size=1M", "pep=none"
        here = campaign(*settings, "loss=0")
        inventory = load_inventory(ROOT / "inventory.yml")
        (found,) = runs_of(here, inventory, lambda uses: {})
        return found.run_id, found.for_guest()

    first, told = run(WG)
    assert told["configured"] == {"vpn_values": "mtu=1400;clamp=off"}
    assert told["scenario"]["constants"]["vpn_values"] == "mtu=1400;clamp=off"  # type: ignore[index]
    assert "SECRET" not in repr(told)
    assert run(WG)[0] == first != run(f"{WG}# another\n")[0]


def test_only_a_command_reads_a_file(written: Written) -> None:
    path = ROOT / "scenarios/geo.yml"
    scenario, subs = read_with_subs(path, PACKAGES)
    values = {"vpn": ("wireguard",), "cc": ("cubic",), "vpn.config": (written(WG),)}
    with pytest.raises(InputError, match="only a command reads a file"):
        check_campaign(
            expanded(sweep_of(path, scenario, subs, values, (1,), PACKAGES, files=False))
        )


def test_the_record_and_the_command_tell_the_lines(
    written: Written,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = Transfers()
    monkeypatch.setattr(engines, "VirtualEngine", fake.engine)
    words = ["geo", "vpn=wireguard", "cc=cubic", "size=1M", "loss=0", "pep=none", "--seeds", "1"]
    results = tmp_path / "results"
    assert main.main([*words, f"vpn.config={written(WG)}", "--results", str(results)]) == 0
    assert "taken: line 3 MTU = 1400" in capsys.readouterr().err
    text = "".join(file.read_text() for file in results.glob("runs/*/record.json"))
    assert '"line 3 MTU = 1400"' in text
    assert '"sha256"' in text
    assert "SECRET" not in text


def test_a_value_may_be_of_one_end() -> None:
    given = {"keepalive": "5", "client-keepalive": "25", "server-psk": "on"}
    assert of_end(given, "client") == {"keepalive": "25"}
    assert of_end(given, "server") == {"keepalive": "5", "psk": "on"}
    text = ";".join(f"{name}={value}" for name, value in given.items())
    for end in ("client", "server"):
        assert folders.values_in(text, end) == of_end(given, end)
    with pytest.raises(InputError, match="wireguard does not read it"):
        campaign("vpn=wireguard", "vpn.server-cipher=x")


def test_a_folder_has_one_configuration_and_the_others_are_named(tmp_path: Path) -> None:
    files = {"mine.conf": WG, "ca.crt": "SECRET", "login.txt": "me\nSECRET", "\x1b[2J": "x"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    found = taken(str(tmp_path), "wireguard")
    assert (found.file, found.values["mtu"]) == (str(tmp_path / "mine.conf"), "1400")
    (beside,) = (names for why, names in found.left_out.items() if why.startswith("beside"))
    assert beside == ["'\\x1b[2J'", "'ca.crt'", "'login.txt'"]
    assert "SECRET" not in repr(found.to_record())
    with pytest.raises(
        InputError, match=r"should have one such file, and has none among '.x1b\[2J', 'ca"
    ):
        taken(str(tmp_path), "openvpn_udp")
    (tmp_path / "second.conf").write_text(WG)
    with pytest.raises(InputError, match=r"has 2, give one: 'mine\.conf', 'second\.conf'$"):
        taken(str(tmp_path), "wireguard")


# Files that are refused

ZEROS = "\0" * 10
REFUSED: dict[str, tuple[str, str | bytes, str]] = {
    "a line": ("wireguard", WG + "rubbish\n", r", line 6: should be \[Section\], or NAME = VALUE"),
    "no section": ("wireguard", "MTU = 1\n" + WG, ", line 1: should be"),
    "too large": (
        "openvpn_udp",
        f"{OVPN}tun-mtu 70000\n",
        ", line 4 tun-mtu: 70000 should be bytes f",
    ),
    "no number": ("wireguard", WG.replace("1400", "14OO"), ", line 3 MTU: should be bytes"),
    "UTF-8": ("wireguard", WG.encode() + b"# \xff\n", ", line 6: not UTF-8"),
    "control": ("wireguard", WG + ZEROS, ", line 6: a control character"),
    "escape": ("openvpn_udp", OVPN + "\x1b[2J", ", line 4: a control character"),
    "long line": ("wireguard", WG + MOST_CHARACTERS * "a" + "b", ", line 6: more than 16384 char"),
    "rubbish": ("openvpn_udp", MOST_BYTES * "a " + "\n", ": more than 256 KiB"),
    "lines": ("openvpn_udp", OVPN + MOST_LINES * "verb 3\n", ", line 1001: more than 1000 lines"),
    "other": (
        "openvpn_udp",
        WG,
        "is no OpenVPN file; it is one of wg-quick: give vpn=boringtun or",
    ),
    "neither": ("wireguard", "hello = you\n", "is no wg-quick file$"),
    "no file": ("nebula", WG, "nebula takes no file; those that do are boringtun, openvpn_dco"),
    "TCP": (
        "openvpn_tcp",
        OVPN,
        "line 2: proto says another protocol than TCP, openvpn_tcp's: give",
    ),
    "usual": ("openvpn_tcp", "client\n", ": no line says another protocol"),
    "TAP": ("openvpn_udp", f"{OVPN}dev tap0\n", ", line 4 dev: should be tun"),
    "no end": ("openvpn_udp", f"{OVPN}<ca>\nSECRET\n", r", line 4: <ca> has no end </ca>"),
    "more words": ("openvpn_udp", f"{OVPN}fragment 1300 --up x\n", ", line 4 fragment: should be"),
    "no directive": ("openvpn_udp", f"{OVPN}$(reboot)\n", ", line 4: should begin with the name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_configuration_is_refused(case: str, written: Written) -> None:
    vpn, content, words = REFUSED[case]
    with pytest.raises(InputError, match=words) as refused:
        taken(written(content), vpn)
    assert "SECRET" not in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_file_of_this_machine_that_is_none_is_not_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for file in (
        fifo,
        Path("/dev/zero"),
        tmp_path,
        Path("/proc/self/mem"),
        tmp_path / "none",
        Path("/"),
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(InputError, match=f"{file}: "):
            taken(str(file), "wireguard")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize("file", ["/etc/passwd", "/etc/shadow", "/proc/self/environ"])
def test_a_refusal_shows_nothing_of_another_file(file: str) -> None:
    if not os.access(file, os.R_OK):
        pytest.skip(f"{file} cannot be read here")
    with pytest.raises(InputError) as refused:
        taken(file, "openvpn_udp")
    assert "root" not in str(refused.value)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_change_nothing(
    ending: str, mark: str, written: Written
) -> None:
    for text, vpn in ((WG, "wireguard"), (OVPN, "openvpn_udp")):
        found = taken(written(mark + text.replace("\n", ending)), vpn)
        assert found.values == taken(written(text), vpn).values


NAMES = [name for vpn in WITH_FILES for name in (table_of(vpn, VPNS) or {})["rules"]]
PARTS = st.sampled_from(
    [*NAMES, "[Interface]", "[Peer]", "<ca>", "</ca>", "=", "\n", " ", "--up", "1400"]
)


@pytest.mark.parametrize("vpn", WITH_FILES)
@given(content=st.binary(max_size=200) | st.lists(PARTS).map(lambda parts: "".join(parts).encode()))
def test_any_content_is_taken_or_refused_in_words(
    vpn: str, content: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / f"{vpn}.conf"
    head = b"client\n" if vpn.startswith("openvpn") else b"[Interface]\n"
    for text in (content, head + content):
        file.write_bytes(text)
        try:
            found = taken(str(file), vpn)
        except InputError as error:
            assert str(error).isprintable()
            continue
        assert re.fullmatch(folders.VALUES, found.text) or found.text == "none"
        words = " ".join(found.values.values()).split()
        assert {word for word in words if word.startswith("-")} <= {f"--{name}" for name in NAMES}
        assert found.in_words().replace("\n", "").isprintable()
