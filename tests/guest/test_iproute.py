# SPDX-License-Identifier: GPL-3.0-or-later
"""What the guest does by netlink in place of `ip` and `tc` leaves what these leave.

Each line is done both ways, in namespaces of their own in one guest, and all that `ip` and `tc` show
then is compared. tests/guest/test_commands.py does the same with the record of whole runs.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from helpers.guest_runs import command

IP = """\
link add name x0 mtu 1400 address 02:00:0a:00:00:01 netns a type veth peer name x1 mtu 1400 netns b
link add q0 type ifb
link set q0 up
link set dev q0 alias measured
link add v0 type dummy
link add gone type dummy
link set gone up
link set gone down
link del gone
address add 10.9.1.2/24 broadcast + dev v0
link set v0 up
address add 10.8.0.1/32 dev v0
address add fd00::1/64 dev v0 nodad
neighbour add 10.9.1.7 lladdr 02:00:00:00:00:07 nud permanent dev v0
neighbour add fd00::7 lladdr 02:00:00:00:00:07 nud permanent dev v0
route add default via 10.9.1.7
route add 192.168.7.0/24 via 10.9.1.7 metric 7
route replace 192.168.7.0/24 via 10.9.1.8 metric 7
route replace unreachable 192.168.8.0/24 metric 1000
route replace 192.168.8.0/24 via 10.9.1.7 dev v0
route replace 192.168.9.0/24 via 10.9.1.7 dev v0 protocol 100
route add 10.77.0.0/16 dev v0
route replace unreachable 192.168.18.0/24 metric 1000
route del unreachable 192.168.18.0/24 metric 1000
route add local 0.0.0.0/0 dev lo table 100
route add fd01::/64 via fd00::7
route add 1.2.3.4 via 10.9.1.7 table 200
route add 10.78.0.0/16 dev v0
route del 10.78.0.0/16"""
TC = """\
qdisc add dev d0 clsact
filter add dev d0 ingress matchall action mirred egress redirect dev q0
filter add dev d0 egress matchall action mirred ingress redirect dev q0
qdisc add dev q0 root handle 1: tbf rate 10000000bit burst 1540 limit 625000
qdisc add dev q0 parent 1:1 handle 10: bfifo limit 625000
qdisc replace dev d0 root handle 1: netem limit 100000 loss random 1% seed 16171810823986729605
qdisc replace dev d0 parent 1:1 handle 2: netem limit 100000 delay 250000us rate 10gbit seed 5
qdisc change dev d0 parent 1:1 handle 2: netem limit 100 delay 25ms loss random 0.3% seed 6
qdisc change dev q0 root handle 1: tbf rate 8bit burst 1540 limit 6250
qdisc add dev k0 root handle 1: pfifo limit 30
qdisc del dev k0 root
qdisc replace dev k0 root fq
qdisc add dev k0 clsact
qdisc del dev k0 clsact
qdisc replace dev k0 root handle 1: netem limit 100000 loss gemodel 0.1234567% 25.0000000% seed 3
qdisc change dev k0 root handle 1: netem limit 90000 delay 5ms 1ms"""
FAILS = "link del nobody\nqdisc del dev lo root"
STARTED = (
    ("ip", "-j", "link"),
    ("ip", "-6", "rule", "add", "lookup", "9"),
    ("ip", "route", "add", "10.0.0.0/8", "via", "10.9.1.7", "initcwnd", "20"),
    ("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms", "2ms"),
    ("tc", "qdisc", "add", "dev", "lo", "root", "fq_codel", "limit", "9"),
    ("tc", "-s", "qdisc", "show"),
    ("nft", "list", "ruleset"),
)
"""Commands that only the program can do. In a batch each such line is left to it (`gemodel`)."""
PROGRAM = f"""
import json, subprocess, sys
sys.path.insert(0, "/opt/openbach-run/src")
from openbach_run.guest import iproute

SETUP = '''mount -t tmpfs none /run; mkdir /run/netns; ip netns add a; ip netns add b
ip link add d0 type dummy; ip link set d0 up; ip link add k0 type dummy; ip link set lo up'''
SHOW = '''ip -d -j link; ip -j address; ip -j route show table all; ip -j -6 route; ip -j neighbour
tc -j qdisc show; tc -j filter show dev d0 ingress; tc -j filter show dev d0 egress
ip netns exec a ip -d -j link; ip netns exec b ip -d -j link'''
by_netlink = sys.argv[1] == "netlink"
def do(words, text):
    if not by_netlink:
        return subprocess.run(words, input=text, capture_output=True, text=True)
    return iproute.done(words, text)

subprocess.run(SETUP, shell=True, check=True)
for program, text in (("ip", {IP!r}), ("tc", {TC!r})):
    ended = do([program, "-batch", "-"], text)
    assert ended.returncode == 0, ended.stderr
counted = json.loads(do(iproute.COUNTERS, None).stdout)
for one in counted:
    for name in one.keys() - {{"kind", "handle", "dev", "bytes", "packets", *iproute.QUEUE}}:
        del one[name]
failed = [do([line.partition(" ")[0] == "link" and "ip" or "tc", *line.split()], None).returncode for line in {FAILS.splitlines()!r}]
forced = do(["ip", "-force", "-batch", "-"], "link del nobody\\nlink set dev k0 alias forced").returncode
unknown = [words for words in {STARTED!r} if iproute.done(words, None)]
shown = [json.loads(line) for line in subprocess.run(SHOW, shell=True, capture_output=True, text=True).stdout.splitlines() if line.strip()]
print(json.dumps([shown, counted, failed, forced, unknown], sort_keys=True))
"""


def without_chance(text: str) -> str:
    """MAC addresses that nobody has given, what follows from them, and the kernel's own handles."""
    drawn = r'"(?!02:)([0-9a-f]{2}:){5}[0-9a-f]{2}"|"fe80:[^"]*"|"800\d:"'
    return re.sub(drawn, '"by chance"', text)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    program = tmp_path_factory.mktemp("iproute") / "both.py"
    program.write_text(PROGRAM)
    both = "; ".join(f"unshare -nm python3 both.py {how}" for how in ("netlink", "programs"))
    cell = ("geo", "vpn=none", "cc=cubic", "loss=0")
    done = command("exec", *cell, "--quiet", "--file", str(program), "--", "pc", both)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in map(without_chance, done.stdout.splitlines())]


def test_both_ways_leave_the_same(left: list[Any]) -> None:
    by_netlink, by_programs = left
    for own, other in zip(by_netlink[0], by_programs[0], strict=True):
        assert sorted(map(str, own)) == sorted(map(str, other))
    assert by_netlink[1] == by_programs[1], "the counters"


def test_what_fails_fails_in_both_ways(left: list[Any]) -> None:
    by_netlink, by_programs = left
    assert all(by_netlink[2]) and all(by_programs[2])
    assert by_netlink[3] and by_programs[3]


def test_other_commands_are_left_to_the_programs(left: list[Any]) -> None:
    by_netlink, _ = left
    assert by_netlink[4] == []
