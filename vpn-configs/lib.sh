# shellcheck shell=sh
# SPDX-License-Identifier: GPL-3.0-or-later
# What `up` of several VPNs does with the interface $VPN_DEVICE when it is there. They read it with `. "${0%/*}/../lib.sh"`.

# Address, MTU and segment size.
configure_device() {
    ip -batch - << EOF
link set $VPN_DEVICE mtu $VPN_MTU
address add $VPN_TUNNEL_IP peer $VPN_REMOTE_TUNNEL_IP dev $VPN_DEVICE
link set $VPN_DEVICE up
EOF
    clamp_segments
}

# The segment size of TCP connections through the tunnel fits its MTU, as OpenVPN's mssfix does, unless $VPN_CLAMP is `off`:
# each connection then begins with packets that are too big, and leaves slow start at once. Without an interface the words of
# nft that tell packets from the tunnel ($1 to $3) and into it ($4 to $6) are given.
clamp_segments() {
    [ "$#" = 6 ] || set -- iifname "$VPN_DEVICE" "" oifname "$VPN_DEVICE" ""
    headers=40
    case $VPN_TUNNEL_IP in *:*) headers=60 ;; esac # of IP and TCP
    clamp="tcp flags & (syn | rst) == syn tcp option maxseg size set $((VPN_MTU - headers))"
    [ "${VPN_CLAMP:-on}" = on ] || clamp="continue"
    nft -f - << EOF
table inet $VPN_DEVICE {
    chain clamp {
        type filter hook forward priority mangle
        $1 $2 $3 $clamp
        $4 $5 $6 $clamp
    }
}
EOF
}

# Counts packets in a counter that the job reports, if the interface cannot tell: $1 is `rx`, `tx` (what came out of the tunnel,
# what went in) or `handshakes`, $2 the hook where they pass, $3… the words of nft that tell them from others.
count() {
    name=$1 hook=$2
    shift 2
    nft -f - << EOF
table inet $VPN_DEVICE {
    counter $name { }
    chain count_$name {
        type filter hook $hook priority filter
        $* counter name $name
    }
}
EOF
}

# A connection of Multipath TCP gets a subflow from each interface of $VPN_PATHS, beside the one that it begins with. This host's
# routes by source address lead each of them its own way.
multipath_tcp() {
    ip mptcp limits set subflow 8 add_addr_accepted 8
    for path in $VPN_PATHS; do
        address=$(ip -4 -o address show dev "$path" | sed 's/.* inet \([0-9.]*\).*/\1/')
        ip mptcp endpoint add "$address" dev "$path" subflow
    done
}

# An interface in the overlay network that a VPN makes of its own addresses, between $1 and $2 (the other end's).
tunnel_in_overlay() {
    case $1 in
        *:*) ip link add "$VPN_DEVICE" type ip6tnl mode ipip6 local "$1" remote "$2" encaplimit none ;;
        *) ip link add "$VPN_DEVICE" type ipip local "$1" remote "$2" ;;
    esac
    configure_device
}

# A secret for a VPN that wants one at both ends: each makes a key of X25519 and tells the other its public half (keygen).
# Nobody who has seen only these knows the secret.
shared_secret_keygen() {
    openssl genpkey -algorithm X25519 -out "$VPN_DIR/shared.pem"
    openssl pkey -in "$VPN_DIR/shared.pem" -pubout
}

shared_secret() {
    openssl pkeyutl -derive -inkey "$VPN_DIR/shared.pem" -peerkey "$VPN_REMOTE_PUBLIC" | openssl dgst -sha256 -r | cut -d' ' -f1
}

# WireGuard's pre-shared key, if $VPN_PSK is `on`: such a secret, in a file. The other end's public key is then the first line
# of what it told; what reads its public half skips that line.
wireguard_psk() {
    [ "${VPN_PSK:-off}" = on ] || return 0
    psk_peer=$(sed 1q "$VPN_REMOTE_PUBLIC") psk="preshared-key $VPN_DIR/psk"
    openssl pkeyutl -derive -inkey "$VPN_DIR/shared.pem" -peerkey "$VPN_REMOTE_PUBLIC" | openssl dgst -sha256 -binary |
        openssl base64 > "$VPN_DIR/psk"
}

# Ends `up` if the kernel would give a socket less than $VPN_SNDBUF or $VPN_RCVBUF, which it does without a word.
check_socket_buffers() {
    for asked in "wmem_max ${VPN_SNDBUF:-0}" "rmem_max ${VPN_RCVBUF:-0}"; do
        limit=net.core.${asked% *} bytes=${asked#* }
        most=$(cat "/proc/sys/net/core/${asked% *}" 2> /dev/null) || continue # a namespace of an older kernel shows none
        [ "$bytes" -le "$most" ] || { echo "this kernel gives a socket at most $most bytes, not $bytes ($limit)"; exit 1; }
    done
}

# Interfaces that this host makes from now on have IPv6, as an overlay network wants it.
allow_ipv6() {
    echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6
}

# A WireGuard interface that is there, whichever program or kernel makes its packets. A handshake is complete with its second
# message, which the server sends: its first byte is 2.
configure_wireguard() {
    port=$((51820 + VPN_TUNNEL))
    endpoint='' hook=output server=$VPN_REMOTE_IP everything=0.0.0.0/0
    case $server in *:*) server="[$server]" ;; esac
    case $VPN_TUNNEL_IP in *:*) everything=::/0 ;; esac
    [ "$VPN_ROLE" = server ] || { endpoint="endpoint $server:$port"; hook=input; }
    count handshakes "$hook" udp sport "$port" @th,64,8 2
    # shellcheck disable=SC2086 # two words or none
    wg set "$VPN_DEVICE" listen-port "$port" private-key "$VPN_DIR/private" peer "${psk_peer:-$(cat "$VPN_REMOTE_PUBLIC")}" \
        ${psk:-} allowed-ips $everything persistent-keepalive "${VPN_KEEPALIVE:-0}" $endpoint
    run_commands "${VPN_PRE_UP:-}"
    configure_device
    run_commands "${VPN_POST_UP:-}"
}

# Runs a person's own commands, $1 in base64, as wg-quick does: %i is the interface. They end after 10 s, or when they have
# written 64 KiB.
run_commands() {
    [ -n "$1" ] || return 0
    printf %s "$1" | base64 -d | sed "s/%i/$VPN_DEVICE/g" > "$VPN_DIR/commands"
    (ulimit -f 128 && exec timeout 10 bash -e "$VPN_DIR/commands" > "$VPN_DIR/said" 2>&1) || failed="a command of the file failed"
    cat "$VPN_DIR/said"
    [ -z "${failed:-}" ] || { printf '\n%s\n' "$failed"; exit 1; }
}

# The same for a program in user space: $1… runs in the foreground; `wg` talks to it over a socket in /var/run.
run_wireguard() {
    run_daemon "[ -S /var/run/wireguard/$VPN_DEVICE.sock ]" configure_wireguard "$@"
}

# Runs $3… in the foreground, and calls $2 as soon as $1, a command, succeeds.
run_daemon() {
    is_ready=$1 configure=$2
    shift 2
    "$@" &
    daemon=$!
    trap 'kill "$daemon" 2> /dev/null; wait "$daemon"; exit 0' TERM
    until eval "$is_ready"; do
        kill -0 "$daemon" 2> /dev/null || wait "$daemon"
        sleep 0.05
    done
    "$configure"
    wait "$daemon"
}

# Runs quic-tunnel (connect_ip/quic-tunnel) as the command $1 with the options $3…. $2 is what it reserves of a UDP payload.
run_quic_tunnel() {
    command=$1 reserved=$2
    shift 2
    address=$VPN_LOCAL_IP
    [ "$VPN_ROLE" = server ] || address=$VPN_REMOTE_IP
    cc=$VPN_CC
    case $cc in
        fixed:*) # the forward link's rate, which the server sends with, and the return link's
            cc=${cc%:*}
            [ "$VPN_ROLE" = server ] || cc=fixed:${VPN_CC##*:}
            ;;
    esac
    # Read by quic-go as 0001-settings-of-quic-go.patch has changed it.
    export QUIC_TUNNEL_CC="$cc" QUIC_TUNNEL_INITIAL_WINDOW="$VPN_INITIAL_WINDOW" QUIC_TUNNEL_ACK_EVERY="$VPN_ACK_EVERY"
    # With several threads Go's garbage collector waits for one of them without a system call. In virtual time, where no
    # computing takes any, that never ends; with all others stopped it has no one to wait for.
    [ "$VPN_THREADS" = 1 ] || export GODEBUG=gcstoptheworld=2
    GOMAXPROCS=$VPN_THREADS exec quic-tunnel "$command" -role "$VPN_ROLE" -server "$address:$((4433 + VPN_TUNNEL))" \
        -device "$VPN_DEVICE" -key "$VPN_DIR/key" -peer "$VPN_REMOTE_PUBLIC" -packet-bytes $((VPN_MTU + reserved)) \
        -rtt-s "$VPN_RTT_S" -keepalive-s "$VPN_KEEPALIVE" "$@"
}
