# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that have no effect beside others.

Refused where they contradict each other, said where they do nothing.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from openbach_run.campaign.file import plan_file
from openbach_run.campaign.model import Campaign
from openbach_run.campaign.notes import notes_of
from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.catalog import Catalog
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
STEADY = "time_s,rate_bps,delay_ms\n0,10000000,250\n5,5000000,20\n"
LOSSY = "time_s,rate_bps,delay_ms,loss_pct\n0,10000000,250,0.5\n"
DARK = "time_s,rate_bps,delay_ms,loss_pct\n0,10000000,250,0\n5,,,100\n6,,,0\n"


def campaign(scenario: str, *settings: str) -> Campaign:
    return plan(ROOT / f"scenarios/{scenario}.yml", settings, None, PACKAGES)


def notes(scenario: str, *settings: str) -> list[str]:
    return notes_of(campaign(scenario, *settings))


@pytest.fixture
def link(tmp_path: Path) -> Path:
    file = tmp_path / "x.csv"
    file.write_text(STEADY)
    return file


@pytest.mark.parametrize(
    "setting", ["delay_ms=20", "delay_ms=20,400", "rate=5M", "return_rate=1M", "rate=5M,preset"]
)
@pytest.mark.parametrize(
    "more", [(), ("loss=0", "jitter_ms=0", "buffer=1BDP", "queue=fifo", "burst_packets=1")]
)
def test_what_a_link_file_has_is_refused_beside_it(
    link: Path, setting: str, more: tuple[str, ...]
) -> None:
    with pytest.raises(
        InputError, match=rf"{setting.split(',')[0]}: link_file={link} has rate and delay over time"
    ):
        campaign("geo", "vpn=none", "cc=cubic", f"link_file={link}", setting, *more)


@pytest.mark.parametrize("scenario", ["web", "voip", "rcs2"])
def test_a_control_beside_a_profile_that_has_one_is_refused(scenario: str) -> None:
    with pytest.raises(InputError, match="cc_pep=bbr2: that profile has its own"):
        campaign(scenario, "vpn=none", "pep=A", "cc_pep=bbr2", "pep_profile=satcom")


def test_a_link_file_alone_is_taken_and_what_a_record_says_of_it_too(link: Path) -> None:
    (cell,) = campaign("geo", "vpn=none", "cc=cubic", f"link_file={link}").cells
    again = campaign("geo", *(f"{name}={value}" for name, value in cell.items()))
    assert again.cells == [cell]


IDLE = {
    "geo burst_packets=10": "nothing is lost at random",
    "geo burst_ms=10": "nothing is lost at random",
    "geo loss_at=last_mile": "nothing is lost at random",
    "geo cc_pep=bbr2": "there is no proxy (with pep=none)",
    "geo initcwnd_pep=20": "there is no proxy (with pep=none)",
    "geo vpn=wireguard cpu_scale=2": "a CPU that costs nothing cannot be slower",
    "geo vpn=none cpu=vm_epyc_2600": "there is no tunnel whose packets cost anything (with vpn=none)",
    "geo vpn=none,wireguard cc_tunnel=bbr2": "no tunnel runs over TCP",
    "pop_users vpn=openvpn_udp users=1 user_rate_kbps=500": "there are no other users (with users=1)",
    "pop_users vpn=openvpn_udp users=1 user_packet_bytes=500": "there are no other users (with users=1)",
    "lan_tcp rate=unlimited queue_packets=10": "no packet waits where there is no rate (with rate=unlimited)",
    "lan_reconnect event=address event_s=5": "only drop, down and reboot have a length (with event=address)",
    "lan_reconnect event=drop new_address=10.30.0.99/24": "only the event address takes it (with event=drop)",
    "lan_reconnect event=none event_after_s=5": "nothing happens (with event=none)",
    "lan_reconnect event=restart vpn=none": "there is no VPN to restart (with vpn=none)",
    "multipath event=none event_s=5": "only drop, down and reboot have a length (with event=none)",
    "multipath event=none cut=to_geo": "nothing happens (with event=none)",
    "geo http=3 sack=off": "the transfer is QUIC, and this is an option of TCP (with http=3)",
    "geo http=3 window_scaling=off": "the transfer is QUIC",
    "geo http=3 tcp_buffer=1M": "the transfer is QUIC",
    "web http=3 ecn=on": "the transfer is QUIC",
    "geo vpn=none ecn=on": "packets have it, and no queue marks them: only cake does (with queue=fifo)",
    "geo queue=fq_codel ecn=on": "packets have it, and no queue marks them",
    "geo queue=cake vpn=openvpn_tcp ecn=on": "the tunnel is a stream of its own",
    "voip background=none vpn=none sack=off": "nothing but the transfer in the background is TCP",
    "voip background=none vpn=none cc=bbr2": "nothing but the transfer in the background",
    "voip background=none vpn=none pep=B": "nothing but the transfer in the background",
    "voip background=download vpn=wireguard pep=A": "the proxy sees only the tunnel's packets",
    "geo vpn=wireguard pep=A": "the proxy sees only the tunnel's packets (with vpn=wireguard)",
    "geo vpn=strongswan pep=A_double cc_pep=bbr": "the proxy sees only the tunnel's packets",
    "geo vpn=wireguard pep=A pep_profile=satcom": "the proxy sees only the tunnel's packets",
    "geo vpn=wireguard pep=A http=2 pep_program=pepsal": "the proxy sees only the tunnel's packets",
    "rcs2 vpn=wireguard pep=A_double pep_ask=2M": "the proxy sees only the tunnel's packets",
    "rcs2 vpn=none direction=download pep=B_double http=3 pep_ask=2M": "the transfer is QUIC",
    "geo vpn=openvpn_tcp http=3 pep=B cc_pep=bbr": "the transfer is QUIC, which no proxy splits",
    "geo vpn=openvpn_tcp http=3 initcwnd=40": "the transfer is QUIC, and this is an option of TCP",
    "geo direction=upload series_s=1": "on goodput, RTT and window: they are of connections",
    "multi_flow direction_2=upload series_s=1": "on goodput, RTT and window of the second flow",
    "geo http=3 series_s=1": "on goodput, RTT and window: the transfer is QUIC",
}


@pytest.mark.parametrize(("asked", "words"), IDLE.items())
def test_a_value_without_effect_is_said(asked: str, words: str) -> None:
    scenario, *settings = asked.split()
    said = notes(scenario, *settings)
    of_restart = scenario == "lan_reconnect" and "event=restart" in settings
    value = "event=restart" if of_restart else settings[-1]
    begins = tuple(f"{value} has no effect{joint}{words}" for joint in (": ", " "))
    assert any(text.startswith(begins) for text in said), said
    assert not [text for text in said if "changes little" in text]


def test_a_value_of_a_campaign_file_is_not_said_to_have_no_effect(tmp_path: Path) -> None:
    file = tmp_path / "own.yml"
    values = "{vpn: [none], pep: [none, A], pep_profile: [satcom], cc: [cubic]}"
    file.write_text(f"scenarios:\n  - scenario: geo\n    values: {values}\n")
    assert notes_of(plan_file(file, (), None, PACKAGES, Catalog())[0]) == []
    (typed,) = plan_file(file, ("ecn=on",), None, PACKAGES, Catalog())
    assert [text.partition(":")[0] for text in notes_of(typed)] == ["ecn=on has no effect"]


EFFECTIVE = [
    ("geo", "queue=cake vpn=none ecn=on"),
    ("geo", "vpn=none ecn=off"),
    ("geo", "sack=off"),
    ("geo", "http=1.1 window_scaling=off"),
    ("voip", "background=download sack=off"),
    ("geo", "loss=1 burst_packets=10"),
    ("geo", "return_loss=1 burst_packets=10"),
    ("geo", "loss=1 burst_ms=10"),
    ("geo", "loss=1 loss_at=last_mile burst_ms=10"),
    ("geo", "loss=1 loss_at=last_mile burst_packets=10"),
    ("geo", "vpn=none pep=A cc_pep=bbr2 initcwnd_pep=20"),
    ("web", "vpn=none http=2 pep=A initcwnd_pep=20"),
    ("web", "vpn=none http=2 pep=A cc_pep=bbr2 pep_profile=plain"),
    ("geo", "vpn=wireguard_go cpu=vm_epyc_2600 cpu_scale=2"),
    ("geo", "vpn=wireguard_go cpu_pop=vm_epyc_2600 cpu_scale=2"),
    ("geo", "vpn=openvpn_tcp cc_tunnel=bbr2"),
    ("geo", "vpn=openvpn_mptcp cc_tunnel=bbr2"),
    ("multi_flow", "vpn=none vpn_2=openvpn_tcp cc_tunnel=bbr2"),
    ("lan_tcp", "rate=1M queue_packets=10"),
    ("lan_reconnect", "event=drop,reboot event_s=5"),
    ("lan_reconnect", "event=address vpn=none new_address=10.30.0.99/24"),
    ("voip", "background=download cc=bbr2 pep=B"),
    ("voip", "background=none vpn=openvpn_tcp cc=bbr2"),
    ("geo", "vpn=openvpn_tcp pep=A cc_pep=bbr2 initcwnd_pep=20"),
    ("geo", "vpn=wireguard http=2 series_s=1 buffer_bdp=0.1 pep=B cc_pep=bbr3 initcwnd_pep=20"),
    ("geo", "vpn=openvpn_tcp http=3 quic=quinn cc=bbr pep=A cc_pep=bbr2 initcwnd=40"),
    ("multi_flow", "vpn=wireguard vpn_2=openvpn_tcp pep=A cc_pep=bbr2"),
    ("rcs2", "vpn=openvpn_tcp pep=A_double pep_ask=2M cc_pep=bbr2"),
]


@pytest.mark.parametrize(("scenario", "settings"), EFFECTIVE)
def test_of_a_value_with_an_effect_nothing_is_said(scenario: str, settings: str) -> None:
    assert notes(scenario, *settings.split()) == []


def test_what_comes_on_top_or_instead_is_said(link: Path) -> None:
    assert notes("geo", "jitter_ms=100") == [
        "jitter_ms=100: no packet arrives before it is sent, so the delays that would be below 0"
        " are 0, and the mean is longer (with delay_ms=250)"
    ]
    least = "buffer_bdp=0.02: that is less than two full packets, which no buffer is"
    for rate in ("rate=1M", "return_rate=1M"):
        (text,) = notes("geo", "buffer_bdp=0.02", rate)
        assert text == f"{least}: it has 3028 bytes (with delay_ms=250, {rate})"
    assert notes("geo", "orbit=leo", "delay_ms=40") == [
        "delay_ms=40 takes the place of the constellation of orbit=leo, with its delays, handovers"
        " and outages"
    ]
    assert notes("geo", "orbit=leo", f"link_file={link}") == [
        f"link_file={link} takes the place of the constellation of orbit=leo, with its delays,"
        " handovers and outages"
    ]
    assert notes("geo", f"link_file={link}", "loss=5") == [
        "loss=5: this loss comes on top of the losses that the link file has (with"
        f" link_file={link}, loss_at=satellite)"
    ]


@pytest.mark.parametrize(("text", "count"), [(STEADY, 1), (DARK, 1), (LOSSY, 5)])
def test_a_link_file_is_random_if_it_loses_at_random(link: Path, text: str, count: int) -> None:
    link.write_text(text)
    of_link = campaign("geo", f"link_file={link}", "vpn=none", "cc=cubic", "noise=off")
    assert len(of_link.every_seed) == count


def test_a_long_link_file_begins_by_the_seed_and_a_note_says_so(link: Path) -> None:
    link.write_text(STEADY + "300,10000000,250\n")
    own = ("geo", "vpn=none", "cc=cubic", "noise=off", f"link_file={link}")
    assert campaign(*own).every_seed == (1, 2, 3, 4, 5)
    text = f"{link}: each seed begins at another time of its 300 s (link_start=0: at its begin)"
    assert notes(*own) == [text]
    assert campaign(*own, "link_start=0").every_seed == (1,)
    assert notes(*own, "link_start=0") == []
    assert notes("geo", "vpn=none", "cc=cubic", "link_start=seed") == [
        "link_start=seed has no effect: the link has no file"
    ]
    with pytest.raises(InputError, match=r"link_start=-1"):
        campaign(*own, "link_start=-1")
    campaign(*own, "link_start=299")
    with pytest.raises(InputError, match=rf"link_start=300: {link} lasts 300 s"):
        campaign(*own, "link_start=299,300")


@pytest.mark.parametrize(("text", "count"), [(STEADY, 1), (LOSSY, 5)])
def test_so_is_a_satellite_that_is_a_link_file(tmp_path: Path, text: str, count: int) -> None:
    from openbach_run.catalog import Catalog

    (tmp_path / "satellites").mkdir()
    (tmp_path / "satellites/trace.csv").write_text(text)
    catalog = Catalog.beside_ours([tmp_path])
    packages = load_packages(catalog.jobs, catalog)
    for scenario, setting in (("geo", "orbit=trace"), ("multipath", "first=trace")):
        planned = plan(
            ROOT / f"scenarios/{scenario}.yml",
            [setting, "vpn=none", "cc=cubic", "noise=off"],
            None,
            packages,
        )
        assert len(planned.every_seed) == count
        if scenario == "geo":
            run = runs_of(planned, load_inventory(ROOT / "inventory.yml"), lambda uses: {})[0]
            assert run.for_guest()["satellite_file"] == text, "for reports"
    with pytest.raises(
        InputError, match=r"delay_ms=20: the satellite's .*trace\.csv has rate and delay over time"
    ):
        plan(ROOT / "scenarios/geo.yml", ["orbit=trace", "delay_ms=20"], None, packages)


@pytest.mark.parametrize(("name", "count"), [("none", 1), ("baseline", 1), ("medium", 5)])
def test_an_impairment_is_random_if_it_is(name: str, count: int) -> None:
    of_lan = campaign("lan_tcp", f"impairment={name}", "vpn=none", "noise=off")
    assert len(of_lan.every_seed) == count
    assert len(campaign("lan_tcp", f"impairment={name}", "vpn=none").every_seed) == 5, (
        "its hosts are"
    )
