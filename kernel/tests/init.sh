#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The guest's first process: runs one test (run.py names it on the kernel's command line) and powers off.
#   SELFTESTS=DIR  the host's directory with the built selftests
#   FOLDER=NAME    the collection, where the test runs
#   TEST=COMMAND   with commas for spaces
# A test may write anywhere: all it writes is in memory, above the host's files.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1

say() { # for run.py
    echo "kernel-tests: $*"
}

power_off() { # what reboot(8) does; perl-base is in every Debian
    say "$*"
    perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
}

mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root /mnt/tests
mount -t hostfs -o "hostfs=$SELFTESTS" none /mnt/tests
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root || power_off no overlay
cd /mnt/root || power_off no root
mkdir -p kselftest root dev proc sys run tmp
mkdir /mnt/upper-tests /mnt/work-tests
mount -t overlay -o lowerdir=/mnt/tests,upperdir=/mnt/upper-tests,workdir=/mnt/work-tests none kselftest
mount -t proc none proc
mount -t sysfs none sys
mount -t devtmpfs none dev
mkdir -p dev/pts dev/shm
mount -t devpts none dev/pts
for place in dev/shm run tmp; do
    mount -t tmpfs none "$place"
done
mount -t debugfs none sys/kernel/debug
mkdir -p run/netns sys/fs/cgroup
mount -t cgroup2 none sys/fs/cgroup
ln -sf /proc/self/fd dev/fd
ln -sf /proc/self/fd/0 dev/stdin
ln -sf /proc/self/fd/1 dev/stdout
ln -sf /proc/self/fd/2 dev/stderr

# In time travel no time has passed so far. WireGuard refuses handshakes in a kernel's first 20 ms; a run, too, begins after
# one second (BEGIN_NS in guest/main.py).
sleep 1
# shellcheck disable=SC2016 # the inner shell expands
chroot . /bin/sh -c '
    ip link set lo up
    cd "/kselftest/$FOLDER" || exit 125
    IFS=,
    exec $TEST' < /dev/null 2>&1
power_off "exit $?"
