#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# A bare 30 MB transfer in hand-made namespaces: the least that the same path, link and transfer cost on the
# virtual kernel, without scenario, director or jobs. bench.py sets openbach-run's overhead against it.
#
#     pc ── box ── st ══ sat ══ gw ── pop ── server      10 Mbit/s, 250 ms each way, buffer of one BDP
set -eu

hosts="pc box st sat gw pop server"
for host in $hosts; do
    ip netns add "$host"
    ip netns exec "$host" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.ip_forward=1 \
        "net.ipv4.tcp_rmem=4096 131072 16777216" "net.ipv4.tcp_wmem=4096 16384 16777216"
done

wire() { # LEFT RIGHT LEFT-ADDRESS RIGHT-ADDRESS
    ip link add "to_$2" netns "$1" type veth peer name "to_$1" netns "$2"
    ip -n "$1" address add "$3/24" dev "to_$2"
    ip -n "$2" address add "$4/24" dev "to_$1"
    ip -n "$1" link set "to_$2" up
    ip -n "$2" link set "to_$1" up
    ip netns exec "$1" ethtool -K "to_$2" tso off gso off gro off
    ip netns exec "$2" ethtool -K "to_$1" tso off gso off gro off
}
wire pc box 192.168.10.2 192.168.10.1
wire box st 10.10.1.1 10.10.1.2
wire st sat 10.10.2.1 10.10.2.2
wire sat gw 10.10.3.1 10.10.3.2
wire gw pop 10.10.4.1 10.10.4.2
wire pop server 192.168.20.1 192.168.20.2

ip -n pc route add default via 192.168.10.1
ip -n box route add default via 10.10.1.2
ip -n st route add default via 10.10.2.2
ip -n st route add 192.168.10.0/24 via 10.10.1.1
ip -n sat route add default via 10.10.3.2
ip -n sat route add 192.168.10.0/24 via 10.10.2.1
ip -n gw route add default via 10.10.3.1
ip -n gw route add 192.168.20.0/24 via 10.10.4.2
ip -n pop route add default via 10.10.4.1
ip -n server route add default via 192.168.20.1

for towards in st gw; do
    from=gw
    [ "$towards" = gw ] && from=st
    ip -n sat link add "q_$towards" type ifb
    ip -n sat link set "q_$towards" up
    tc -n sat qdisc add dev "to_$from" clsact
    tc -n sat filter add dev "to_$from" ingress matchall action mirred egress redirect dev "q_$towards"
    tc -n sat qdisc add dev "q_$towards" root tbf rate 10mbit burst 1540 limit 625000
    tc -n sat qdisc add dev "to_$towards" root netem delay 250ms limit 100000
done

ip netns exec server iperf3 -s -1 -I /tmp/iperf3.pid > /dev/null &
until [ -s /tmp/iperf3.pid ]; do sleep 0.01; done
ip netns exec pc iperf3 -c 192.168.20.2 -R -n 30000000
