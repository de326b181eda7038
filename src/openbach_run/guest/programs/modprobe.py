#!/usr/bin/python3 -SB
# SPDX-License-Identifier: GPL-3.0-or-later
"""`modprobe` and `rmmod` of the guest, whose kernel has all built in and takes no module.

    modprobe NAME [PARAMETER=VALUE…]
    modprobe -r NAME

The first succeeds for what the kernel has; ifb and dummy make their interfaces, as the modules do
when they are loaded, on the host that asks; -r removes them.

The interfaces are of the host's network namespace: a real host has a kernel of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEVICES = {"ifb": ("numifbs", 2), "dummy": ("numdummies", 1)}
"""Modules that make interfaces: the parameter that says how many, and how many without it."""
BUILT_IN = {
    "act_mirred": "NET_ACT_MIRRED", "act_police": "NET_ACT_POLICE", "af_packet": "PACKET",
    "bridge": "BRIDGE", "cls_flower": "NET_CLS_FLOWER", "cls_fw": "NET_CLS_FW",
    "cls_matchall": "NET_CLS_MATCHALL", "cls_u32": "NET_CLS_U32", "dummy": "DUMMY",
    "esp4": "INET_ESP", "fou": "NET_FOU", "ifb": "IFB", "inet_diag": "INET_DIAG",
    "ip6_tunnel": "IPV6_TUNNEL", "ip_tables": "IP_NF_IPTABLES_LEGACY", "ipip": "NET_IPIP",
    "iptable_filter": "IP_NF_FILTER", "iptable_mangle": "IP_NF_MANGLE", "iptable_nat": "IP_NF_NAT",
    "ipv6": "IPV6", "nf_conntrack": "NF_CONNTRACK", "nf_nat": "NF_NAT", "nf_tables": "NF_TABLES",
    "nf_tproxy_ipv4": "NF_TPROXY_IPV4", "nft_compat": "NFT_COMPAT", "overlay": "OVERLAY_FS",
    "ovpn": "OVPN", "sch_cake": "NET_SCH_CAKE", "sch_codel": "NET_SCH_CODEL",
    "sch_fq": "NET_SCH_FQ", "sch_fq_codel": "NET_SCH_FQ_CODEL", "sch_htb": "NET_SCH_HTB",
    "sch_ingress": "NET_SCH_INGRESS", "sch_netem": "NET_SCH_NETEM", "sch_pie": "NET_SCH_PIE",
    "sch_prio": "NET_SCH_PRIO", "sch_red": "NET_SCH_RED", "sch_sfq": "NET_SCH_SFQ",
    "sch_tbf": "NET_SCH_TBF", "tcp_diag": "INET_TCP_DIAG", "tun": "TUN",
    "udp_diag": "INET_UDP_DIAG", "veth": "VETH", "wireguard": "WIREGUARD",
    "x_tables": "NETFILTER_XTABLES", "xfrm_interface": "XFRM_INTERFACE", "xfrm_user": "XFRM_USER",
    "xt_DSCP": "NETFILTER_XT_TARGET_DSCP", "xt_MASQUERADE": "NETFILTER_XT_TARGET_MASQUERADE",
    "xt_REDIRECT": "NETFILTER_XT_TARGET_REDIRECT", "xt_TCPMSS": "NETFILTER_XT_TARGET_TCPMSS",
    "xt_TPROXY": "NETFILTER_XT_TARGET_TPROXY", "xt_conntrack": "NETFILTER_XT_MATCH_CONNTRACK",
    "xt_mark": "NETFILTER_XT_MARK", "xt_multiport": "NETFILTER_XT_MATCH_MULTIPORT",
    "xt_socket": "NETFILTER_XT_MATCH_SOCKET", "xt_statistic": "NETFILTER_XT_MATCH_STATISTIC",
}  # fmt: skip
"""Modules of Debian's kernel that jobs ask for → their symbol in kernel/config, where they are
built in."""
CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
INTERFACES = Path("/sys/class/net")


def main(words: list[str]) -> int:
    """Return the exit code."""
    options = [word for word in words[1:] if word.startswith("-")]
    names = [word for word in words[1:] if not word.startswith("-")]
    removes = words[0].rpartition("/")[2].startswith("rmmod") or bool(
        {"-r", "--remove"} & {*options}
    )
    if not names:
        return _refuse("name a module")
    several = removes or "-a" in options
    modules, parameters = (names, []) if several else (names[:1], names[1:])
    return max(_remove(name) if removes else _load(name, parameters) for name in modules)


def _load(name: str, parameters: list[str]) -> int:
    if not _is_there(name):
        return _refuse(
            f"{name} is not in the guest's kernel, which takes no modules: what it has is in"
            " kernel/config"
        )
    if (kind := name.replace("-", "_")) not in DEVICES:
        return 0
    parameter, number = DEVICES[kind]
    for text in parameters:
        key, _, value = text.partition("=")
        if key != parameter or not value.isdecimal():
            return _refuse(f"{name}: {text}: in the guest it takes {parameter}=NUMBER only")
        number = int(value)
    if _links(kind):
        return 0  # as a module that is loaded already
    return max(
        [_ip("link", "add", f"{kind}{index}", "type", kind) for index in range(number)], default=0
    )


def _remove(name: str) -> int:
    kind = name.replace("-", "_")
    if kind in DEVICES:
        return max([_ip("link", "delete", link) for link in _links(kind)], default=0)
    if _is_there(name):
        return _refuse(f"{name} is built into the guest's kernel and stays there")
    return _refuse(f"{name} is not in the guest's kernel")


def _is_there(name: str) -> bool:
    module = name.replace("-", "_")
    if module.startswith("tcp_") and module[4:] in CONTROLS.read_text().split():
        return True
    return module in BUILT_IN


def _links(kind: str) -> list[str]:
    """Return the host's interfaces that are named as the module names them."""
    names = [link.name for link in INTERFACES.iterdir()]
    return sorted(name for name in names if name.startswith(kind) and name[len(kind) :].isdecimal())


def _ip(*words: str) -> int:
    return subprocess.run(["ip", *words], check=False).returncode


def _refuse(text: str) -> int:
    print(f"modprobe: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
