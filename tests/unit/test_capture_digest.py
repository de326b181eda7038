# SPDX-License-Identifier: GPL-3.0-or-later
"""The digest of kernel/src/capture_digest.h, compiled here, is that of results/captures.py."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path

from openbach_run.paths import REPOSITORY
from openbach_run.results.captures import with_packet

HEADERS = {
    "string.h": "#include <string.h>\n",
    "types.h": (
        "#include <stddef.h>\n#include <stdint.h>\ntypedef uint8_t u8;\ntypedef uint64_t u64;\n"
        "typedef unsigned __int128 u128;\n"
        "#define min_t(type, a, b) ((type)(a) < (type)(b) ? (type)(a) : (type)(b))\n"
    ),
    "unaligned.h": (
        "typedef u64 unaligned_u64 __attribute__((aligned(1)));\n"
        "#define get_unaligned(place) (*(const unaligned_u64 *)(place))\n"
    ),
}
"""What the header takes of the kernel."""
PROGRAM = """
#include <stdio.h>
#include "capture_digest.h"

int main(void)
{
    static u8 frame[1 << 16];
    struct digest digest = {};
    u64 head[3];	/* time, length, the largest part that is added at once */

    digest_make_keys();
    while (fread(head, sizeof(head), 1, stdin)) {
        if (fread(frame, 1, head[1], stdin) != head[1])
            return 1;
        digest_begin_record(&digest, head[0], head[1]);
        for (u64 at = 0, part; at < head[1]; at += part) {
            part = min_t(u64, head[2], head[1] - at);
            digest_add(&digest, frame + at, part);
        }
        digest_end_record(&digest);
        printf("%016llx%016llx\\n", (unsigned long long)(digest_value(&digest) >> 64),
               (unsigned long long)digest_value(&digest));
    }
    return 0;
}
"""


def test_the_kernels_digest_is_the_one_that_files_are_checked_by(tmp_path: Path) -> None:
    """Of packets of all lengths, in parts of any size, with the greatest words and times."""
    (tmp_path / "linux").mkdir()
    for name, text in HEADERS.items():
        (tmp_path / "linux" / name).write_text(text)
    (tmp_path / "digest.c").write_text(PROGRAM)
    places = ["-I", str(tmp_path), "-I", str(REPOSITORY / "kernel/src")]
    warnings = ["-Wall", "-Wextra", "-Werror", "-fsanitize=undefined,address"]
    program = str(tmp_path / "digest")
    build = ["gcc", "-O2", *warnings, *places, "-o", program, str(tmp_path / "digest.c")]
    subprocess.run(build, check=True)

    chance = random.Random(1)
    given, expected, digest = b"", [], 0
    for size in (*range(40), 1514, 1520, 1521, 3071, 9000, 65535):
        for frame in (chance.randbytes(size), b"\xff" * size, bytes(size)):
            time_ns = chance.choice([0, 2**64 - 1, 1767225600 * 10**9 + size])
            part = chance.choice([1, 7, 8, 100, 1536, 1 << 16])
            given += struct.pack("<QQQ", time_ns, size, part) + frame
            digest = with_packet(digest, time_ns, frame)
            expected.append(f"{digest:032x}")
    done = subprocess.run([program], input=given, check=True, capture_output=True)
    assert done.stdout.decode().split() == expected
