# SPDX-License-Identifier: GPL-3.0-or-later
"""Run OpenBACH's own jobs: `tools/dev tools/upstream_jobs.py OPENBACH EXTRA [NAME…]`.

Each of OpenBACH's own jobs in a guest, with a check of what it does.

    client/to_router ── router ── server/to_router

OPENBACH is a checkout of OpenBACH 2.7, EXTRA one of openbach-extra; nothing of them is kept here.
What comes of each job is written to tests/data/openbach_jobs.json, and from there to the table of
docs/openbach.md. Words after the two paths are the names of jobs: these only, and what is known of
the others stays.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openbach_run.json_files import read_json
from openbach_run.openbach.job_folders import load_packages
from openbach_run.paths import REPOSITORY
from openbach_run.results import run_files

FOLDERS = ("src/jobs", "externals_jobs/stable_jobs")
"""Of jobs in the two checkouts."""
TEST_JOBS = REPOSITORY / "tests/guest/jobs"
FILE = REPOSITORY / "tests/data/openbach_jobs.json"
DOCUMENT = REPOSITORY / "docs/openbach.md"
MARKERS = ("<!-- begin: tools/upstream_jobs.py -->", "<!-- end: tools/upstream_jobs.py -->")
LIMIT_S = 900
CLIENT, SERVER = "10.1.0.2", "10.2.0.2"
INVENTORY = """\
all:
  vars:
    satvpn_networks: {left: 10.1.0.0/24, right: 10.2.0.0/24}
  hosts:
    client:
      satvpn_role: pc
      satvpn_interfaces: [{name: to_router, network: left, address: 10.1.0.2}]
      satvpn_routes: [{to: default, via: 10.1.0.1}]
    router:
      satvpn_role: gw
      satvpn_forwarding: true
      satvpn_interfaces:
        - {name: to_client, network: left, address: 10.1.0.1}
        - {name: to_server, network: right, address: 10.2.0.1}
    server:
      satvpn_role: server
      satvpn_interfaces: [{name: to_router, network: right, address: 10.2.0.2}]
      satvpn_routes: [{to: default, via: 10.2.0.1}]
"""
KEYS = (
    (
        "AAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAUE=",
        "pOCSkrZRwni5dyxWn1+puxPZBrRqtoyd+dwrRAn4ogk=",
    ),
    (
        "AAICAgICAgICAgICAgICAgICAgICAgICAgICAgICAkI=",
        "zo060cy2M+x7cMF4FKXHbs0CloUFDTRHRboFhw5YfVk=",
    ),
)
"""Private and public keys of WireGuard, which protect nothing."""


class Step(NamedTuple):
    """A job on a host. It starts `wait_s` after the one before was launched, or has finished."""

    host: str
    job: str
    arguments: Mapping[str, Any] = {}
    after: str = "launched"
    wait_s: int = 2


class Case(NamedTuple):
    """A job, the steps that show what it does, and how that is seen."""

    steps: Sequence[Step]
    sends: str = ""
    """A statistic that the job sends."""
    prints: str = ""
    """A pattern in what the shell commands of the steps print."""
    does: str = ""
    """What is checked, in words."""


def shell(host: str, command: str, after: str = "launched", wait_s: int = 2) -> Step:
    """A command, whose output `prints` looks at."""
    return Step(host, "snapshot", {"command": command.replace("$", "$$")}, after, wait_s)


def fping(
    host: str = "client", address: str = SERVER, after: str = "launched", count: int = 5
) -> Step:
    """Some traffic."""
    return Step(host, "fping", {"destination_ip": address, "count": count}, after)


IPERF3 = (
    Step("server", "iperf3", {"server": {"exit": True}}),
    Step("client", "iperf3", {"client": {"server_ip": SERVER, "duration_time": 4, "tcp": {}}}),
)
CURL = "curl -s -o /dev/null -w '%{http_code} %{size_download}' "


def _post(job: str, arguments: Mapping[str, Any]) -> Case:
    """A post-processing job, on the statistics of fping."""
    return Case(
        (fping(), Step("client", job, arguments, "finished")),
        "figure",
        does="stores a figure of fping's times",
    )


FTP = (
    Step("server", "ftp_srv", {"server_ip": SERVER, "port": 2121}),
    Step(
        "client",
        "ftp_clt",
        {
            "server_ip": SERVER,
            "port": 2121,
            "mode": "download",
            "existing": {"file_choice": "10M_file.txt"},
        },
    ),
)
"""A download by FTP: the server and the client are judged by their own statistics."""
CASES: dict[str, Case] = {
    # core: network
    "d-itg_recv": Case(
        (
            Step("server", "d-itg_recv"),
            Step(
                "client",
                "d-itg_send",
                {
                    "target_address": SERVER,
                    "sender_address": CLIENT,
                    "dest_path": "/tmp",
                    "granularity": 1000,
                    "duration": 3,
                },
            ),
            shell("server", "pgrep -c ITGRecv", "finished"),
        ),
        prints=r"[12]",
        does="receives the flow of d-itg_send",
    ),
    "d-itg_send": Case(
        (
            Step("server", "d-itg_recv"),
            Step(
                "client",
                "d-itg_send",
                {
                    "target_address": SERVER,
                    "sender_address": CLIENT,
                    "dest_path": "/tmp",
                    "granularity": 1000,
                    "duration": 3,
                },
            ),
        ),
        "bitrate_receiver",
        does="sends the receiver's rate",
    ),
    "fping": Case((fping(),), "rtt", does="sends round-trip times"),
    "ip_address": Case(
        (
            Step(
                "client",
                "ip_address",
                {"interface": "to_router", "add": {"address_mask": "10.9.9.9/24"}},
            ),
            shell("client", "ip address show to_router", "finished"),
        ),
        prints="10.9.9.9/24",
        does="the address is there",
    ),
    "ip_link": Case(
        (
            Step("client", "ip_link", {"add": {"name": "mine", "mtu": 1300, "dummy": {}}}),
            shell("client", "ip link show mine", "finished"),
        ),
        prints="mtu 1300",
        does="the interface is there",
    ),
    "ip_route": Case(
        (
            Step(
                "client",
                "ip_route",
                {
                    "operation": "add",
                    "gateway_ip": "10.1.0.1",
                    "destination_ip": {"network_ip": "10.7.0.0/16"},
                },
            ),
            shell("client", "ip route", "finished"),
        ),
        prints="10.7.0.0/16 via 10.1.0.1",
        does="the route is there",
    ),
    "ip_tuntap": Case(
        (
            Step("client", "ip_tuntap", {"command": "add", "mode": "tun", "name": "tun7"}),
            shell("client", "ip link show tun7", "finished"),
        ),
        prints="tun7",
        does="the interface is there",
    ),
    "iptables": Case(
        (
            Step(
                "client",
                "iptables",
                {
                    "rule": [
                        "-4",
                        "-A",
                        "OUTPUT",
                        "-p",
                        "tcp",
                        "-m",
                        "multiport",
                        "--dports",
                        "98,99",
                        "-m",
                        "conntrack",
                        "--ctstate",
                        "NEW",
                        "-j",
                        "DROP",
                    ]
                },
            ),
            shell("client", "iptables -S OUTPUT", "finished"),
        ),
        prints="--dports 98,99 .*--ctstate NEW -j DROP",
        does="the rule is there; it has to begin with -4, as the job takes no other option first",
    ),
    "tc_configure_link": Case(
        (
            Step(
                "router",
                "tc_configure_link",
                {"interface_name": "to_server", "apply": {"delay": 50, "bandwidth": "10M"}},
            ),
            shell("client", "fping -c 3 -q " + SERVER + " 2>&1; true", "finished"),
            shell("router", "tc qdisc show dev ifb0; ip -br link show ifb0", "finished"),
        ),
        prints=r"min/avg/max = 1\d\d[\s\S]*netem",
        does="50 ms in both directions, by ifb in one",
    ),
    # core: post-processing
    "comparison": _post("comparison", {"jobs": [[[0]]], "statistics": ["rtt"]}),
    "histogram": _post("histogram", {"jobs": [[[0]]], "bins": 5, "statistics": ["rtt"]}),
    "pcap_postprocessing": Case(
        (
            Step("client", "tcpdump_pcap", {"capture_file": "/tmp/c.pcap", "duration": 4}),
            fping(count=9),
            Step(
                "client",
                "pcap_postprocessing",
                {"capture_file": "/tmp/c.pcap", "stats_one_file": {}},
                "finished",
                5,
            ),
        ),
        "bitrate",
        does="sends rates of a capture",
    ),
    "pseudo_cdf_comparison": _post(
        "pseudo_cdf_comparison",
        {"agents": ["client"], "job": "fping", "statistic": "rtt", "reference": 1},
    ),
    "summary_agent_comparison": _post(
        "summary_agent_comparison", {"agents": ["client"], "job": "fping", "statistic": "rtt"}
    ),
    "summary_time_period": _post(
        "summary_time_period",
        {"agent": "client", "job": "fping", "statistic": "rtt", "reference": 1},
    ),
    "temporal_binning_histogram": _post(
        "temporal_binning_histogram", {"jobs": [[[0]]], "statistics": ["rtt"]}
    ),
    "temporal_binning_statistics": _post(
        "temporal_binning_statistics", {"jobs": [[[0]]], "statistics": ["rtt"]}
    ),
    "time_series": _post("time_series", {"jobs": [[[0]]], "statistics": ["rtt"]}),
    # core: service, transport
    "apache2": Case(
        (
            Step("server", "apache2"),
            shell("client", CURL + f"http://{SERVER}:8081/1M_file.jpeg", wait_s=5),
        ),
        prints="200 1048576",
        does="serves a file of 1 MB",
    ),
    "web_browsing_qoe": Case(
        (Step("client", "web_browsing_qoe", {"nb_runs": 1}),), "page_load_time"
    ),
    "iperf3": Case(IPERF3, "throughput", does="sends the throughput"),
    "rate_monitoring": Case(
        (
            Step(
                "server",
                "rate_monitoring",
                {"sampling_interval": 1, "chain_name": "INPUT", "icmp": {}},
            ),
            fping(),
        ),
        "rate",
        does="sends the rate of ICMP",
    ),
    "tcpdump_pcap": Case(
        (
            Step("client", "tcpdump_pcap", {"capture_file": "/tmp/c.pcap", "duration": 6}),
            fping(count=12),
            shell(
                "client", "tcpdump -r /tmp/c.pcap 2> /dev/null | grep -c 'echo reply'", "finished"
            ),
        ),
        prints="[2-9]",
        does="the capture has the packets",
    ),
    "tcpprobe_monitoring": Case(
        (Step("client", "tcpprobe_monitoring", {"port": 5201}), *IPERF3), "cwnd_monitoring"
    ),
    # admin
    "kernel_compile": Case(
        (Step("client", "kernel_compile", {"kernel_url": "https://git.kernel.org/x.git"}),)
    ),
    "send_logs": Case((Step("client", "send_logs", {"date": ["2026-01-01", "00:00:00.0"]}),)),
    "send_stats": Case((Step("client", "send_stats", {"date": ["2026-01-01", "00:00:00.0"]}),)),
    "synchronization": Case(
        (Step("client", "synchronization", {"synchro_offset": 100.0, "timeout": 5.0}),)
    ),
    # extra: access, admin
    "opensand": Case(
        (Step("client", "opensand", {"infrastructure": "/tmp/i.xml", "topology": "/tmp/t.xml"}),)
    ),
    "command_shell": Case(
        (
            Step("client", "command_shell", {"command_line": "touch /tmp/made"}),
            shell("client", "ls /tmp/made", "finished"),
        ),
        prints="/tmp/made",
        does="the command has run",
    ),
    "cpu_monitoring": Case(
        (Step("client", "cpu_monitoring", {"sampling_interval": 1}), fping()),
        "cpu_user",
        does="sends the CPU's use",
    ),
    "sysctl": Case(
        (
            Step("client", "sysctl", {"parameter": "net.ipv4.ip_default_ttl", "value": "77"}),
            shell("client", "sysctl -n net.ipv4.ip_default_ttl", "finished"),
        ),
        prints="77",
        does="the parameter is set",
    ),
    "system_utilization": Case(
        (Step("client", "system_utilization", {"interval": 1}), fping()),
        "cpu_percent",
        does="sends the CPU's use",
    ),
    # extra: network
    "dambox": Case(
        (
            Step(
                "router",
                "dambox",
                {
                    "damslot": 10,
                    "output interface": "to_server",
                    "frequency": {"frequency_value": 2},
                },
            ),
        )
    ),
    "hping": Case(
        (Step("client", "hping", {"destination_ip": SERVER, "count": 5, "destport": 9}),),
        "rtt",
        does="sends round-trip times",
    ),
    "ip_link_rate_monitoring": Case(
        (
            Step("client", "ip_link_rate_monitoring", {"interface": "to_router", "interval": 1}),
            fping(),
        ),
        "tx_rate_bits",
        does="sends the rates of an interface",
    ),
    "ip_neighbour": Case(
        (
            Step(
                "client",
                "ip_neighbour",
                {
                    "operation": "add",
                    "device": "to_router",
                    "destination_ip": "10.1.0.77",
                    "mac_address": "02:00:00:00:00:77",
                },
            ),
            shell("client", "ip neighbour", "finished"),
        ),
        prints="10.1.0.77.*02:00:00:00:00:77",
        does="the neighbour is there",
    ),
    "ip_scheduler": Case(
        (
            Step(
                "router",
                "ip_scheduler",
                {
                    "interface_name": "to_server",
                    "add": {"file_path": "/opt/openbach/agent/jobs/ip_scheduler/example.conf"},
                },
            ),
            shell("router", "tc qdisc show dev to_server", "finished"),
        ),
        prints="cbq",
    ),
    "mtu_discovery": Case(
        (Step("client", "mtu_discovery", {"destination_ip": SERVER}),), "mtu", does="sends the MTU"
    ),
    "outoforder_detect": Case(
        (
            Step("server", "outoforder_detect", {"server": {"exit": True}}),
            Step("client", "outoforder_detect", {"client": {"server_ip": SERVER, "duration": 3.0}}),
        ),
        "total_packets_received",
        does="sends the packets out of order",
    ),
    "owamp-client": Case((Step("client", "owamp-client", {"destination_address": SERVER}),)),
    "owamp-server": Case((Step("server", "owamp-server"),)),
    "pimd": Case(
        (Step("router", "pimd"), shell("router", "cat /proc/net/ip_mr_vif", wait_s=5)),
        prints="to_server",
        does="the multicast router runs",
    ),
    "rohc": Case(
        (
            Step(
                "server",
                "rohc",
                {
                    "remote_ip": CLIENT,
                    "local_ip": SERVER,
                    "tunnel_ipv4": "10.5.0.2/24",
                    "tunnel_ipv6": "fd00::2/64",
                },
            ),
            Step(
                "client",
                "rohc",
                {
                    "remote_ip": SERVER,
                    "local_ip": CLIENT,
                    "tunnel_ipv4": "10.5.0.1/24",
                    "tunnel_ipv6": "fd00::1/64",
                },
            ),
            fping(address="10.5.0.2"),
        ),
        "comp_ratio",
    ),
    "set_tos": Case(
        (
            Step(
                "client",
                "set_tos",
                {"action": "add", "tos": "0x10", "POSTROUTING": {"out_interface": "to_router"}},
            ),
            shell("client", "iptables -t mangle -S; iptables-legacy -t mangle -S", "finished"),
        ),
        prints="set-tos 0x10",
        does="the rule is there",
    ),
    "sr_tunnel": Case((Step("server", "sr_tunnel", {"tun_ip": "10.6.0.2/24", "server": {}}),)),
    "tc_qdisc_stats": Case(
        (
            shell("client", "tc qdisc add dev to_router root handle 1: netem delay 1ms"),
            Step(
                "client",
                "tc_qdisc_stats",
                {"interface": "to_router", "qdisc_nodes": ["1:"], "interval_stats": 1.0},
            ),
            fping(),
        ),
        "throughput",
        does="sends the rate of a qdisc",
    ),
    # extra: service
    "chat_simu_srv": Case(
        (
            Step("server", "chat_simu_srv", {"exit": True}),
            Step("client", "chat_simu_clt", {"server_ip": SERVER}),
        ),
        "bytes_received",
        does="sends the bytes of a chat",
    ),
    "chat_simu_clt": Case(
        (
            Step("server", "chat_simu_srv", {"exit": True}),
            Step("client", "chat_simu_clt", {"server_ip": SERVER}),
        ),
        "bytes_received",
        does="sends the bytes of a chat",
    ),
    "d-itg_gaming": Case(
        (
            Step("server", "d-itg_gaming", {"destination": {"dest_addr": SERVER}}),
            Step(
                "client",
                "d-itg_gaming",
                {
                    "source": {
                        "src_addr": CLIENT,
                        "dest_addr": SERVER,
                        "duration": 5,
                        "game_played": "Quake3",
                    }
                },
            ),
        ),
        "packet_loss (%)",
        does="sends a game's statistics",
    ),
    "dashjs_client": Case(
        (Step("client", "dashjs_client", {"dst_ip": SERVER, "protocol": "http/1.1"}),)
    ),
    "ftp_srv": Case(
        FTP,
        "throughput_sent",
        does="sends the file of ftp_clt",
    ),
    "ftp_clt": Case(
        FTP,
        "total_blocksize_downloaded",
        does="sends what it has downloaded",
    ),
    "openvpn": Case(
        (
            Step(
                "server",
                "openvpn",
                {
                    "protocol": "udp",
                    "local_ip": SERVER,
                    "local_tun_ip": "10.8.0.1",
                    "remote_tun_ip": "10.8.0.2",
                    "server": {},
                },
            ),
            Step(
                "client",
                "openvpn",
                {
                    "protocol": "udp",
                    "local_ip": CLIENT,
                    "local_tun_ip": "10.8.0.2",
                    "remote_tun_ip": "10.8.0.1",
                    "client": {"server_ip": SERVER},
                },
            ),
            shell("client", "fping -c 3 -q 10.8.0.1 2>&1; true", wait_s=20),
        ),
        prints="%loss = 3/3/0%",
        does="the tunnel carries packets",
    ),
    "quic": Case((Step("server", "quic", {"implementation": "picoquic", "server": {}}),)),
    "random_web_browsing_qoe": Case(
        (Step("client", "random_web_browsing_qoe", {"page_visit_duration": 5}),)
    ),
    "smtp": Case(
        (
            Step("server", "smtp", {"server_mode": True, "server_port": 1025}),
            Step(
                "client",
                "smtp",
                {
                    "server_ip": SERVER,
                    "server_port": 1025,
                    "From": "a@example.org",
                    "To": "b@example.org",
                    "Size": 1000,
                    "interval": 1,
                    "duration": 5,
                },
            ),
        ),
        "received_messages|sent_messages",
        does="sends the number of mails",
    ),
    "twinkle_voip": Case((Step("server", "twinkle_voip", {"local_ip": SERVER, "server": True}),)),
    "vlc": Case(
        (
            Step("server", "vlc", {"dst_ip": SERVER, "duration": 10, "receiver": {"interval": 1}}),
            Step("client", "vlc", {"dst_ip": SERVER, "duration": 5, "sender": {}}),
        ),
        "bitrate",
    ),
    "vlc_receiver": Case((Step("server", "vlc_receiver", {"recv_ip": SERVER, "duration": 5}),)),
    "voip_qoe_dest": Case(
        (
            Step("server", "voip_qoe_dest", {"dest_addr": SERVER}),
            Step(
                "client",
                "voip_qoe_src",
                {"src_addr": CLIENT, "dest_addr": SERVER, "codec": "G.711.1", "duration": 5},
            ),
            shell("server", "pgrep -c ITGRecv", "finished"),
        ),
        prints="[1-9]",
        does="receives the calls of voip_qoe_src",
    ),
    "voip_qoe_src": Case(
        (
            Step("server", "voip_qoe_dest", {"dest_addr": SERVER}),
            Step(
                "client",
                "voip_qoe_src",
                {"src_addr": CLIENT, "dest_addr": SERVER, "codec": "G.711.1", "duration": 5},
            ),
        ),
        "instant_mos",
        does="sends the mean opinion score",
    ),
    "wireguard": Case(
        (
            Step(
                "server",
                "wireguard",
                {
                    "create_interface": {
                        "tun_ip": "10.8.0.1/24",
                        "private_key": KEYS[0][0],
                        "listen_port": 51820,
                    }
                },
            ),
            Step(
                "client",
                "wireguard",
                {
                    "create_interface": {
                        "tun_ip": "10.8.0.2/24",
                        "private_key": KEYS[1][0],
                        "listen_port": 51820,
                    }
                },
            ),
            Step(
                "server",
                "wireguard",
                {
                    "peer": {
                        "peer_pub_key": KEYS[1][1],
                        "allowed_ips": ["10.8.0.0/24"],
                        "endpoint": f"{CLIENT}:51820",
                    }
                },
            ),
            Step(
                "client",
                "wireguard",
                {
                    "peer": {
                        "peer_pub_key": KEYS[0][1],
                        "allowed_ips": ["10.8.0.0/24", "10.66.0.0/24"],
                        "endpoint": f"{SERVER}:51820",
                    }
                },
            ),
            Step(
                "server", "ip_address", {"interface": "lo", "add": {"address_mask": "10.66.0.1/32"}}
            ),
            Step(
                "client",
                "ip_route",
                {
                    "operation": "add",
                    "device": "wg0",
                    "destination_ip": {"network_ip": "10.66.0.0/24"},
                },
                "finished",
            ),
            fping(address="10.66.0.1", after="finished"),
            shell("client", "wg show wg0 transfer; fping -c 3 -q 10.66.0.1 2>&1; true", "finished"),
        ),
        prints="%loss = 3/3/0%",
        does="the tunnel carries packets between two agents",
    ),
    # extra: transport
    "ethtool": Case(
        (Step("client", "ethtool", {"interface": "to_router", "enable_GSO": True}),),
        "gso|generic_segmentation_offload|GSO",
        does="sends the offloads in force",
    ),
    "iperf": Case(
        (
            Step("server", "iperf", {"server_mode": True, "metrics_interval": 1}),
            Step(
                "client",
                "iperf",
                {"client_mode_server_ip": SERVER, "time": 4.0, "metrics_interval": 1},
            ),
        ),
        "throughput",
        does="sends the throughput",
    ),
    "netcat": Case(
        (
            Step("server", "netcat", {"server_mode": True, "port": 9000}),
            Step(
                "client", "netcat", {"client_mode": SERVER, "port": 9000, "in_file": "/etc/hosts"}
            ),
            shell("client", "echo done"),
        ),
        prints="done",
        does="both ends run",
    ),
    "nuttcp": Case(
        (
            Step("server", "nuttcp", {"server": {}}),
            Step("client", "nuttcp", {"client": {"server_ip": SERVER, "duration": 4, "tcp": {}}}),
        ),
        "rate|throughput|mean_total_rate",
        does="sends the rate",
    ),
    "pep": Case((Step("router", "pep", {"redirect_ifaces": "to_client"}), *IPERF3), "throughput"),
    "socat": Case(
        (
            Step("server", "socat", {"port": 9001, "server": {"create_file": "1000"}}),
            Step("client", "socat", {"port": 9001, "client": {"dest": SERVER}}),
            shell("client", "echo done", "finished"),
        ),
        prints="done",
        does="the client has read the server's file",
    ),
    "socket_stats_forwarder": Case(
        (
            Step(
                "server",
                "socket_stats_forwarder",
                {"port": 8321, "stats": [["height", "h=(\\d+)"]]},
            ),
            shell(
                "client",
                f"python3 -c \"import socket; socket.socket(2, 2).sendto(b'h=7', ('{SERVER}',"
                ' 8321))"',
            ),
            shell("server", "true"),
        ),
        "height",
        does="sends what it has received",
    ),
    "squid": Case(
        (
            Step(
                "router",
                "squid",
                {
                    "non_transp_proxy": 3128,
                    "trans_proxy": 3129,
                    "source_addr": CLIENT,
                    "input_iface": "to_client",
                    "clean_cache": True,
                },
            ),
            shell(
                "server",
                "cd /tmp && echo hello > f && (python3 -m http.server 8000 > /dev/null 2>&1 &) ;"
                " sleep 1",
                wait_s=0,
            ),
            shell("client", f"curl -s -x 10.1.0.1:3128 http://{SERVER}:8000/f", wait_s=15),
        ),
        prints="hello",
        does="the proxy fetches a page",
    ),
    "tcp_buffer": Case(
        (
            Step(
                "client",
                "tcp_buffer",
                {"name": "rmem", "min_size": 4096, "size": 90000, "max_size": 5000000},
            ),
            shell("client", "sysctl -n net.ipv4.tcp_rmem", "finished"),
        ),
        prints=r"4096\s+90000\s+5000000",
        does="the buffers are set",
    ),
    "tcp_conf_linux": Case(
        (
            Step(
                "client",
                "tcp_conf_linux",
                {"tcp_wmem_max": 5000000, "other": {"congestion_control_name": "bbr"}},
            ),
            shell(
                "client",
                "sysctl -n net.ipv4.tcp_congestion_control net.ipv4.tcp_wmem; ls /etc/sysctl.d",
                "finished",
            ),
        ),
        prints=r"bbr\n.*5000000\n[\s\S]*60-openbach-job",
        does="the congestion control and the buffers are set",
    ),
}
DAYS = "needs days of statistics in a collector's database; a run has its own"
OUTSIDE = {
    "pcap_postprocessing": "needs pyshark, which Debian does not have",
    "web_browsing_qoe": (
        "needs a Firefox of 2022, geckodriver and selenium-wire, none of them in Debian"
    ),
    "tcpprobe_monitoring": "needs the kernel's tcp_probe, which Linux has not had since 4.16",
    "kernel_compile": "makes a kernel of an agent; the guest has its own",
    "send_logs": (
        "sends again to a collector what an agent has logged; and fails with 2.7's collect_agent on"
        " an agent, too"
    ),
    "send_stats": (
        "sends again to a collector what an agent has kept; and fails with 2.7's collect_agent on"
        " an agent, too"
    ),
    "synchronization": "needs ntpd and a time server; all hosts of a guest have one clock",
    "opensand": "needs OpenSAND, which Debian does not have",
    "dambox": "needs DamBOX, which Debian does not have",
    "ip_scheduler": "needs the qdisc cbq, which Linux has not had since 6.3",
    "owamp-client": "needs perfSONAR's repository",
    "owamp-server": "needs perfSONAR's repository",
    "sr_tunnel": "is built from a repository on GitHub",
    "dashjs_client": "needs a Firefox of 2022 and geckodriver, none of them in Debian",
    "random_web_browsing_qoe": "needs a Firefox of 2022 and geckodriver, none of them in Debian",
    "quic": "is built from repositories on GitHub",
    "pseudo_cdf_comparison": DAYS,
    "summary_agent_comparison": DAYS,
    "summary_time_period": DAYS,
    "temporal_binning_histogram": DAYS,
    "temporal_binning_statistics": DAYS,
    "pimd": (
        "needs multicast routing in the kernel, whose tables draw random numbers on every host:"
        " packets would move"
    ),
    "twinkle_voip": "needs a sound card",
    "rohc": (
        "is compiled on the agent from a source archive of its own, which is not done in a guest"
    ),
    "vlc": "sends a video that its installation downloads, which is not done",
    "vlc_receiver": "receives what `vlc` sends",
    "system_utilization": "asks for the partitions of a disk; a guest has no disk",
    "pep": "needs PEPSal, which Debian does not have; `satpep` of this project does the same",
}
"""Jobs that do not run, and why. The reason of pimd is ours, that of all others lies outside."""


def scenario_of(case: Case) -> dict[str, Any]:
    """The steps one after the other; when the last has finished, the others are stopped."""
    functions: list[dict[str, Any]] = []
    for number, step in enumerate(case.steps):
        before = [number - 1] if number else []
        wait = {"time": step.wait_s if number else 0, "launched_ids": [], "finished_ids": []}
        functions.append(
            {
                "id": number,
                "label": step.job,
                "wait": {**wait, f"{step.after}_ids": before},
                "start_job_instance": {"entity_name": step.host, step.job: dict(step.arguments)},
            }
        )
    last = len(functions) - 1
    stop = {"openbach_function_ids": list(range(last))}
    waits = {"time": 1, "launched_ids": [], "finished_ids": [last]}
    if last:
        functions.append(
            {"id": last + 1, "label": "end", "wait": waits, "stop_job_instances": stop}
        )
    return {
        "name": "job",
        "description": "",
        "arguments": {},
        "constants": {},
        "openbach_functions": functions,
    }


def tried(name: str, case: Case, checkouts: Sequence[Path]) -> str:
    """Runs a case; what is wrong, "" if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "inventory.yml").write_text(INVENTORY)
        (place / "job.json").write_text(json.dumps(scenario_of(case), indent=1))
        jobs = [
            word for path in (*_folders(checkouts), TEST_JOBS) for word in ("--jobs", str(path))
        ]
        options = [
            "--inventory",
            str(place / "inventory.yml"),
            "--results",
            str(place / "results"),
            "--seeds",
            "1",
        ]
        command = [
            sys.executable,
            "-m",
            "openbach_run",
            str(place / "job.json"),
            *jobs,
            *options,
            "--quiet",
        ]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                env=environment,
                cwd=REPOSITORY,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return f"not finished after {LIMIT_S} s of real time"
        runs = [*(place / "results/runs").glob("*")]
        if kept := os.environ.get("KEEP"):
            shutil.copytree(place, Path(kept) / name, dirs_exist_ok=True)
        if done.returncode:
            return _error(runs) or _last_words(done.stderr) or "failed"
        return _unseen(name, case, runs[0]) if runs else "no run"


def _error(runs: Sequence[Path]) -> str:
    """What a run's record says went wrong, its last words."""
    records = [read_json(run / "record.json") for run in runs if (run / "record.json").exists()]
    return " ".join(" ".join(str(one.get("error") or "") for one in records).split())[-400:]


def _last_words(text: str) -> str:
    lines = [
        line
        for line in text.splitlines()
        if line.strip() and "warning:" not in line and "note:" not in line
    ]
    return re.sub(r"/tmp/tmp\w+/", "", lines[-1].strip()) if lines else ""


def _unseen(name: str, case: Case, run: Path) -> str:
    """What the run should show and does not."""
    lines = (
        [json.loads(line) for line in run_files.content(run, "statistics.jsonl").splitlines()]
        if _sent(run)
        else []
    )
    if case.sends:
        wanted = case.sends.split("|")
        own = [line for line in lines if line["_metadata"]["job_name"] == name]
        if not any(one in line for line in own for one in wanted):
            sent = sorted({key for line in own for key in line if key != "_metadata"})
            return f"sent {', '.join(sent) or 'nothing'}; expected {case.sends}"
    printed = "".join(str(line.get("printed", "")) for line in lines)
    if case.prints and not re.search(case.prints, printed):
        return f"the hosts show {printed.strip()[-200:]!r}; expected {case.prints}"
    return ""


def _sent(run: Path) -> bool:
    return any(run.glob("statistics.jsonl*"))


def _folders(checkouts: Sequence[Path]) -> list[Path]:
    return [
        path for checkout in checkouts for folder in FOLDERS if (path := checkout / folder).is_dir()
    ]


def table(known: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of the documentation."""
    runs = sum(bool(one["runs"]) for one in known.values())
    lines = [
        f"{runs} of {len(known)} run.",
        "",
        "| job | in the guest | what is checked, or why not |",
        "|---|---|---|",
    ]
    for name, one in sorted(known.items()):
        said = one["does"] if one["runs"] else one["why"]
        lines.append(
            f"| `{name}` | {'runs' if one['runs'] else 'does not run'} |"
            f" {said.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(lines)


def write_table(known: Mapping[str, Mapping[str, Any]]) -> None:
    """Puts it between the markers of the document."""
    text = DOCUMENT.read_text()
    begin, end = MARKERS
    before, after = text.partition(begin)[0], text.partition(end)[2]
    DOCUMENT.write_text(f"{before}{begin}\n{table(known)}\n{end}{after}")


def outcomes(
    checkouts: Sequence[Path], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What comes of each job."""
    there = load_packages(_folders(checkouts))
    for name in sorted(names or there):
        case = CASES.get(name)
        wrong = (
            "has no case in tools/upstream_jobs.py"
            if case is None
            else tried(name, case, checkouts)
        )
        if wrong and name in OUTSIDE:
            print(f"{name}: {wrong}", flush=True)
        why = OUTSIDE.get(name, wrong) if wrong else ""
        yield name, {"runs": not wrong, "does": case.does if case and not wrong else "", "why": why}


def main() -> int:
    """Return the exit code: 1 if a job does not run for another reason than those of OUTSIDE."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("openbach", type=Path, help="a checkout of OpenBACH 2.7")
    parser.add_argument("extra", type=Path, help="one of openbach-extra")
    parser.add_argument("job", nargs="*", help="these only")
    asked = parser.parse_args()
    checkouts, names = [asked.openbach.resolve(), asked.extra.resolve()], asked.job
    unexpected = 0
    for name, one in outcomes(checkouts, names):
        known = {**(read_json(FILE) if FILE.exists() else {}), name: one}
        unexpected += not one["runs"] and name not in OUTSIDE
        print(f"{name}: {'runs' if one['runs'] else one['why']}", flush=True)
        jobs = [f" {json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known)]
        FILE.write_text("{\n" + ",\n".join(jobs) + "\n}\n")
        write_table(known)
    return int(unexpected > 0)


if __name__ == "__main__":
    sys.exit(main())
