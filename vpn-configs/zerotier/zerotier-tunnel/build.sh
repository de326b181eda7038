#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Makes zerotier-tunnel and the library that it loads, libzt.so, in $OUT. $WHEEL is where the wheel of libzt is unpacked.
set -eu
strip -o "$OUT/libzt.so" "$WHEEL/libzt/_libzt.cpython-39-x86_64-linux-gnu.so"
{
    # What the library wants of Python, and of a part of ZeroTier that it does not have. Nothing of that is called.
    nm -D -u "$OUT/libzt.so" | awk '$2 ~ /^_?Py|LinuxNetLink/ {print ".globl " $2 "; " $2 ": .quad 0, 0"}'
    echo '.section .note.GNU-stack,"",@progbits'
} > absent.s
# shellcheck disable=SC2016 # for the loader
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror zerotier-tunnel.c absent.s -o "$OUT/zerotier-tunnel" \
    "-L$OUT" -l:libzt.so -Wl,-rpath,'$ORIGIN',--allow-shlib-undefined,--export-dynamic
