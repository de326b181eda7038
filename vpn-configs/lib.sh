# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What `up` of several VPNs does with the interface $VPN_DEVICE when it is there. They read it with `. "$(dirname "$0")/../lib.sh"`.

# Address, MTU and segment size.
configure_device() {
    ip link set "$VPN_DEVICE" mtu "$VPN_MTU"
    ip address add "$VPN_TUNNEL_IP" peer "$VPN_REMOTE_TUNNEL_IP" dev "$VPN_DEVICE"
    ip link set "$VPN_DEVICE" up
    clamp_segments
}

# The segment size of TCP connections through the tunnel fits its MTU, as OpenVPN's mssfix does; otherwise each
# connection would begin with packets that are too big, and leave slow start at once. Without an interface the words of
# nft that tell packets from the tunnel ($1 to $3) and into it ($4 to $6) are given.
clamp_segments() {
    [ "$#" = 6 ] || set -- iifname "$VPN_DEVICE" "" oifname "$VPN_DEVICE" ""
    nft -f - << EOF
table inet $VPN_DEVICE {
    chain clamp {
        type filter hook forward priority mangle
        $1 $2 $3 tcp flags & (syn | rst) == syn tcp option maxseg size set $((VPN_MTU - 40))
        $4 $5 $6 tcp flags & (syn | rst) == syn tcp option maxseg size set $((VPN_MTU - 40))
    }
}
EOF
}

# Interfaces that this host makes from now on have IPv6, as an overlay network wants it.
allow_ipv6() {
    echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6
}

# A WireGuard interface that is there, whichever program or kernel makes its packets.
configure_wireguard() {
    port=$((51820 + VPN_TUNNEL))
    endpoint=
    [ "$VPN_ROLE" = server ] || endpoint="endpoint $VPN_REMOTE_IP:$port"
    # shellcheck disable=SC2086 # two words or none
    wg set "$VPN_DEVICE" listen-port "$port" private-key "$VPN_DIR/private" \
        peer "$(cat "$VPN_REMOTE_PUBLIC")" allowed-ips 0.0.0.0/0 $endpoint
    configure_device
}

# The same for a program in user space: $1… runs in the foreground; `wg` talks to it over a socket in /var/run.
run_wireguard() {
    "$@" &
    daemon=$!
    trap 'kill "$daemon" 2> /dev/null; wait "$daemon"; exit 0' TERM
    until [ -S "/var/run/wireguard/$VPN_DEVICE.sock" ]; do
        kill -0 "$daemon" 2> /dev/null || wait "$daemon"
        sleep 0.05
    done
    configure_wireguard
    wait "$daemon"
}
