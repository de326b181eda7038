# SPDX-License-Identifier: GPL-3.0-or-later
"""The same seed gives the same packets to the bit, on every interface.

Another seed gives others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from blake3 import blake3
from helpers.guest_runs import RunCells, command, copy_of_the_checkout, records

VPNS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp")
CELL = ("cc=cubic", "loss=1", "size=2M")


@pytest.mark.parametrize("vpn", VPNS)
def test_same_seed_same_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *CELL)
    (second,) = run_cells("geo_loss", f"vpn={vpn}", *CELL, again=1)
    assert first.row["capture_hash"] == second.row["capture_hash"]
    assert first.row["transfer_time_s"] == second.row["transfer_time_s"]


EDIT = """

def _of_no_use(text: str) -> str:
    return f"nobody asks for {text}"
"""


def test_an_edit_that_does_nothing_changes_no_packet(run_cells: RunCells, tmp_path: Path) -> None:
    """Jobs run as forks of the director.

    What they send must not follow from where its memory lies (OpenSSL's random numbers do).
    """
    edited = copy_of_the_checkout(tmp_path / "edited")
    for name in ("src/openbach_run/guest/director.py", "jobs/web_page/files/web_page.py"):
        file = edited / name
        head, found, rest = file.read_text().partition('if __name__ == "__main__":')
        file.write_text(f"{head}{EDIT}\n\n{found}{rest}")
    cell = ("vpn=none", "pep=B", "http=2", "loads=1")
    done = command(
        "scenarios/web.json",
        *cell,
        "--results",
        str(tmp_path / "results"),
        cwd=edited,
        checkout=edited,
    )
    assert done.returncode == 0, done.stderr
    (before,), (after,) = run_cells("web", *cell), records(tmp_path / "results")
    assert before.row["run_id"] != after.row["run_id"], "the edit was not run"
    assert before.row["capture_hash"] == after.row["capture_hash"]


@pytest.mark.parametrize(
    "cell",
    [
        *(("geo_loss", f"vpn={vpn}", *CELL) for vpn in ("wireguard", "openvpn_udp", "strongswan")),
        ("voip", "vpn=none", "orbit=leo", "background=none", "duration_s=60"),
    ],
    ids=lambda cell: f"{cell[0]} {cell[1]}",
)
def test_another_cpu_changes_no_packet(
    run_cells: RunCells, cell: tuple[str, ...], tmp_path: Path
) -> None:
    """The CPU says where the loader looks for a program's libraries.

    glibc is told of one without SSE 4.2. strongSwan's programs have directories of libraries of
    their own. Of a call of 60 s ITGDec writes 3000 lines without a sleep, each a system call that
    counts (awake-syscalls.patch). (init.py is not edited: it is in the image, which would be made
    anew, with the packages that Debian has by now.)
    """
    edited = copy_of_the_checkout(tmp_path / "edited")
    for name, place, added in (
        ("agent.py", '"PYTHONHASHSEED": "0",', '"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-SSE4_2",'),
        (
            "main.py",
            "def _run(events: TextIO, began_ns: int) -> dict[str, Any]:\n",
            '    os.environ["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps=-SSE4_2"\n',
        ),
    ):
        file = edited / "src/openbach_run/guest" / name
        text = file.read_text()
        assert text.count(place) == 1
        file.write_text(text.replace(place, place + added))
    scenario, *values = cell
    results = str(tmp_path / "results")
    done = command(
        f"scenarios/{scenario}.json",
        *values,
        "--seeds",
        "1",
        "--results",
        results,
        cwd=edited,
        checkout=edited,
    )
    assert done.returncode == 0, done.stderr
    (here,), (there,) = run_cells(scenario, *values), records(tmp_path / "results")
    assert here.row["run_id"] != there.row["run_id"], "the edit was not run"
    assert here.row["capture_hash"] == there.row["capture_hash"]


@pytest.mark.parametrize("vpn", VPNS)
def test_other_seed_other_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *CELL)
    (other,) = run_cells("geo_loss", f"vpn={vpn}", *CELL, seeds="7,")
    assert first.row["capture_hash"] != other.row["capture_hash"]


def test_the_hash_is_that_of_the_capture_file(run_cells: RunCells) -> None:
    """With --pcap the stream that was hashed is the file that was kept.

    Keeping it changes no packet.
    """
    (kept,) = run_cells("geo_loss", "vpn=none", *CELL, pcap=True)
    (hashed,) = run_cells("geo_loss", "vpn=none", *CELL)
    assert (
        blake3(kept.capture.read_bytes()).hexdigest()
        == kept.row["capture_hash"]
        == hashed.row["capture_hash"]
    )
