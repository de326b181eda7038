# SPDX-License-Identifier: GPL-3.0-or-later
"""The features of a kernel that jobs and VPNs may need."""

from openbach_jobs.kernel import PIECES

FEATURES = {
    **{name: command for name, (_, command) in PIECES.items()},
    "fq": "tc qdisc replace dev lo root fq",
    "tun": "ip tuntap add dev try_tun mode tun",
    "wireguard": "ip link add try_wg type wireguard",
    "ip6tnl": "ip link add try_ip6tnl type ip6tnl mode ipip6 local ::1 remote ::2",
    "ipip": "ip link add try_ipip type ipip local 127.0.0.1 remote 127.0.0.2",
    "ovpn": "ip link add try_ovpn type ovpn",
    "esp": (
        "ip xfrm state add src 10.0.0.1 dst 10.0.0.2 proto esp spi 1 mode tunnel aead"
        " 'rfc4106(gcm(aes))' 0x0001020304050607080900010203040506070809 128"
    ),
    "cpu_model": "test -e /proc/net/cpu_model",
    "dama": "test -e /proc/net/dama",
    "dvbs2": "test -e /proc/net/dvbs2",
    "mptcp": "ip mptcp endpoint add 127.0.0.1",
    "users": "python3 -Sc 'import os; os.setgroups([]); os.setgid(33); os.setuid(33)'",
}
"""Feature of a kernel that a job or a VPN may need → command that shows, in a network namespace of
its own, that it is there."""
IN_WORDS = {
    "cpu_model": "the CPU model, which is of virtual time",
    "dama": (
        "a return link that has to be asked for, which is of virtual time: netem cannot do it, and"
        " OpenSAND can (or give access=assigned)"
    ),
    "dvbs2": (
        "a forward link in frames, which is of virtual time: netem cannot do it, and OpenSAND can"
        " (or give forward=rate)"
    ),
    "tun": "TUN interfaces (/dev/net/tun)",
    "users": "other users than root in its namespaces",
    **{name: f"{name} (module {module})" for name, (module, _) in PIECES.items()},
    "matchall": "the traffic classifier matchall (module cls_matchall)",
}
