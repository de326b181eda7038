# SPDX-License-Identifier: GPL-3.0-or-later
"""The same seed gives the same packets to the bit, on every interface.

Another seed gives others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.guest_runs import Run, RunCells, command, copy_of_the_checkout, records
from helpers.vpns_tested import VPNS as TESTED_VPNS

from openbach_run.results.captures import hash_of_packets

VPNS = ("none", "wireguard", "openvpn_udp", "openvpn_tcp")
CELL = ("cc=cubic", "loss=1", "size=2M", "noise=host")


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
    cell = ("vpn=none", "pep=B", "http=2", "loads=1", "noise=host")
    check_packets(run_cells("web", *cell), runs_of(edited, ("web", *cell), tmp_path / "results"))


MAIN = "def _run(events: TextIO, began_ns: int) -> dict[str, Any]:\n"


def test_calls_of_the_setup_change_no_packet(run_cells: RunCells, tmp_path: Path) -> None:
    """The guest's first program makes more calls for more hosts: they do not count as polling.

    With two links two programs measure at the same time, and each reading of a clock counts.
    """
    edited = copy_of_the_checkout(tmp_path / "edited")
    file = edited / "src/openbach_run/guest/main.py"
    text = file.read_text()
    assert text.count(MAIN) == 1
    file.write_text(text.replace(MAIN, f"{MAIN}    [os.getppid() for _ in range(3000)]\n"))
    cell = ("multipath_udp", "vpn=none", "first=geo", "second=leo", "event=none", "noise=host")
    check_packets(run_cells(*cell), runs_of(edited, cell, tmp_path / "results"))


@pytest.fixture(scope="module")
def of_cpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two checkouts: the guest's glibc is told of a CPU without SSE 4.2, and of nothing.

    The words are as long, since a program's memory has them, too.
    """
    place = tmp_path_factory.mktemp("of_cpus")
    checkouts = []
    for cpu in ("-SSE4_2", "-XXX4_2"):
        edited = copy_of_the_checkout(place / cpu)
        # init.py is not edited: it is in the image, which would be made anew, with the packages
        # that Debian has by now.
        for name, before, added in (
            ("agent.py", '"PYTHONHASHSEED": "0",', f'"GLIBC_TUNABLES": "glibc.cpu.hwcaps={cpu}",'),
            ("main.py", MAIN, f'    os.environ["GLIBC_TUNABLES"] = "glibc.cpu.hwcaps={cpu}"\n'),
        ):
            file = edited / "src/openbach_run/guest" / name
            text = file.read_text()
            assert text.count(before) == 1
            file.write_text(text.replace(before, before + added))
        checkouts.append(edited)
    return checkouts


@pytest.mark.parametrize(
    "cell",
    [
        ("geo_loss", f"vpn={','.join(TESTED_VPNS)}", *CELL),
        ("voip", "vpn=none", "orbit=leo", "background=none", "duration_s=60"),
    ],
    ids=lambda cell: str(cell[0]),
)
def test_another_cpu_changes_no_packet(
    of_cpus: list[Path], cell: tuple[str, ...], tmp_path: Path
) -> None:
    """The CPU says where the loader looks for a program's libraries.

    strongSwan's programs have directories of libraries of their own. Of a call of 60 s ITGDec
    writes 3000 lines without a sleep, each a system call that counts (awake-syscalls.patch).
    """
    without, with_all = (runs_of(one, cell, tmp_path / one.name) for one in of_cpus)
    check_packets(without, with_all)


def runs_of(checkout: Path, cell: Sequence[str], results: Path) -> list[Run]:
    """Return the runs that a checkout makes of a cell, with seed 1."""
    words = (*cell, "--seeds", "1", "--results", str(results))
    done = command(*words, cwd=checkout, checkout=checkout)
    assert done.returncode == 0, done.stderr
    return records(results)


def check_packets(before: Sequence[Run], after: Sequence[Run]) -> None:
    """Fail where runs of two checkouts have other packets, or are of the same code."""
    identities, others = ({run.row["run_id"] for run in runs} for runs in (before, after))
    assert not identities & others, "the edit was not run"
    hashes, now = (
        {run.row["vpn"]: run.row["capture_hash"] for run in runs} for runs in (before, after)
    )
    assert hashes == now


@pytest.mark.parametrize("vpn", VPNS)
def test_other_seed_other_capture(run_cells: RunCells, vpn: str) -> None:
    (first,) = run_cells("geo_loss", f"vpn={vpn}", *CELL)
    (other,) = run_cells("geo_loss", f"vpn={vpn}", *CELL, seeds="7,")
    assert first.row["capture_hash"] != other.row["capture_hash"]


def test_the_hash_is_that_of_the_capture_file(run_cells: RunCells) -> None:
    """Keeping the packets changes none, and the digests are those of the file."""
    (kept,) = run_cells("geo_loss", "vpn=none", *CELL, pcap=True)
    (hashed,) = run_cells("geo_loss", "vpn=none", *CELL)
    assert hash_of_packets(kept.capture) == kept.row["capture_hash"] == hashed.row["capture_hash"]
