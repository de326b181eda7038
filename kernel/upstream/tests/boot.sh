# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0
# What the tests have in common. A test is called with the executable of a User Mode Linux kernel, and prints TAP.
#
# The root of the guest is ROOT, read-only (a Debian tree with iproute2 and python3; this machine's own by default).

linux=$(realpath "$1")
root=$(realpath "${ROOT:-/}")
work=$(mktemp -d)
mkdir "$work/mnt"
trap 'rm -rf "$work"' EXIT

# boot MEMORY ARGUMENTS…: run the script on standard input in the guest, whose /tmp is $work; print what it says.
# The end of the script ends the guest (panic=-1).
boot() {
    memory=$1
    shift
    cat > "$work/script"
    : > "$work/said"
    timeout 60 "$linux" mem="$memory" quiet panic=-1 con=null con0=null,fd:1 seccomp=auto \
        root=/dev/root rootfstype=hostfs rootflags="$root" ro "$@" \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin init=/bin/sh -- \
        -c "\"mount -t hostfs -o hostfs=$work none /tmp && sh /tmp/script > /tmp/said 2>&1\"" \
        < /dev/null > "$work/console" 2>&1 || true
    # A script that has not come to its end has not passed.
    grep -q '^# end$' "$work/said" || {
        echo "not ok the guest has run to the end"
        sed 's/^/# /' "$work/console" | tail -n 20
    }
    cat "$work/said"
}

# passed: print the results and return 0 if all are ok.
passed() {
    cat "$work/results"
    grep -q '^ok' "$work/results" && ! grep -q '^not ok' "$work/results"
}
