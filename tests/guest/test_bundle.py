# SPDX-License-Identifier: GPL-3.0-or-later
"""The bundle of this checkout: made twice it is the same file.

An ordinary user runs it where there is nothing but a kernel's interface (no shell, no C library, no
Python, no network), and gets the captures that this checkout gets.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.empty_system import an_empty_home, in_an_empty_system
from helpers.guest_runs import command, records

pytestmark = pytest.mark.nightly
CELLS = (
    "geo_loss",
    "vpn=none,wireguard,openvpn_udp,openvpn_tcp",
    "cc=cubic,bbr2",
    "loss=0,1",
    "size=300k",
    "noise=host",
    "--seeds",
    "1",
)


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with an_empty_home() as place:
        yield place


def captures(results: Path) -> dict[str, str]:
    return {run.row["run_id"]: run.row["capture_hash"] for run in records(results)}


def test_made_again_it_is_the_same_file(bundle: Path) -> None:
    again = bundle.with_name("again")
    assert command("bundle", "-o", str(again), "--level", "1", "--quiet").returncode == 0
    sums = ["sha256sum", "-c", "--quiet", f"{again.name}.sha256"]
    subprocess.run(sums, check=True, cwd=again.parent)
    same = subprocess.run(["cmp", bundle, again], check=False, capture_output=True, text=True)
    again.unlink()
    assert same.returncode == 0, same.stdout


def test_an_empty_system_gets_the_same_packets(bundle: Path, home: Path, tmp_path: Path) -> None:
    there = in_an_empty_system(bundle, home, *CELLS, "--results", "there")
    assert there.returncode == 0, there.stderr
    here = command(*CELLS, "--results", str(tmp_path / "here"))
    assert here.returncode == 0, here.stderr
    assert there.stdout == here.stdout
    assert captures(home / "there") == captures(tmp_path / "here")
    assert len(captures(home / "there")) == 16


def test_the_report_and_its_pdf_are_made_there_too(bundle: Path, home: Path) -> None:
    assert in_an_empty_system(bundle, home, *CELLS, "--results", "there").returncode == 0
    done = in_an_empty_system(bundle, home, "report", "there", "-o", "report")
    assert done.returncode == 0, done.stderr
    assert (home / "report/report.pdf").read_bytes().startswith(b"%PDF")


def test_it_says_what_it_is_made_of(bundle: Path, home: Path) -> None:
    assert in_an_empty_system(bundle, home, "--help").returncode == 0
    (place,) = (home / ".cache/openbach-run").glob("bundle-????????????????")
    described = json.loads((place / "sbom.spdx.json").read_text())
    parts = {part["externalRefs"][0]["referenceLocator"]: part for part in described["packages"]}
    assert (
        len(parts)
        == len(described["packages"])
        == len({part["SPDXID"] for part in described["packages"]})
    )
    for name in (
        "pypi/pandas",
        "deb/debian/wireguard-tools",
        "deb/debian/linux-source-7.2",
        "deb/debian/libzstd-dev",
    ):
        assert len([url for url in parts if url.startswith(f"pkg:{name}@")]) == 1, name
    origins = {
        one["spdxElementId"]: one["relatedSpdxElement"]
        for one in described["relationships"]
        if one["relationshipType"] == "GENERATED_FROM"
    }
    identified = {part["SPDXID"]: part for part in parts.values()}
    for name in ("deb/debian/iproute2", "deb/debian/wireguard-tools", "deb/debian/libc6"):
        (url,) = [
            url for url in parts if url.startswith(f"pkg:{name}@") and url.endswith("arch=amd64")
        ]
        source = identified[origins[parts[url]["SPDXID"]]]
        assert source["packageFileName"].endswith(".dsc") and ".tar." in source["comment"]
        assert len(source["checksums"][0]["checksumValue"]) == 64
    for kind in ("pkg:pypi", "pkg:deb"):
        assert (
            len(
                [url for url, part in parts.items() if url.startswith(kind) and "checksums" in part]
            )
            > 40
        )
    assert "GENERAL PUBLIC LICENSE" in (place / "licenses/openbach-run").read_text()
    assert (place / "licenses/debian/openvpn").exists()
