# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of what is in a bundle: copied from a mirror, checked by their hashes, or named."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from openbach_run.bundle import sbom, sources
from openbach_run.engine.virtual import debian

DSC, KERNEL = "pool/main/t/tinc/tinc_1.dsc", b"the kernel"
KERNEL_PATH = "pool/main/l/linux/linux-source-7_7.1_all.deb"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def ignore(text: str, part: float) -> None:
    pass


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's entry; and a mirror that has one source package and the kernel's."""
    for path, content in ((DSC, b"of tinc"), (KERNEL_PATH, KERNEL)):
        (tmp_path / "mirror" / path).parent.mkdir(parents=True)
        (tmp_path / "mirror" / path).write_bytes(content)
    monkeypatch.setenv(debian.MIRROR_VARIABLE, f"{(tmp_path / 'mirror').as_uri()}/")

    entry = tmp_path / "kernel"
    entry.mkdir()
    made = {"source": KERNEL_PATH, "source_sha256": sha256(KERNEL)}
    (entry / "kernel.json").write_text(json.dumps(made))
    return entry


def test_sources_are_copied_once(
    kernel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, copy = {DSC: sha256(b"of tinc")}, tmp_path / "copy"
    assert sources.copy_sources(copy, files, kernel, ignore) == []
    assert (copy / DSC).read_bytes() == b"of tinc"
    assert (copy / KERNEL_PATH).read_bytes() == KERNEL
    monkeypatch.setenv(debian.MIRROR_VARIABLE, (tmp_path / "nowhere").as_uri())
    assert sources.copy_sources(copy, files, kernel, ignore) == [], (
        "what is there is not asked for again"
    )


def test_what_a_mirror_has_not_is_named_with_its_hash(kernel: Path, tmp_path: Path) -> None:
    made = {"source": KERNEL_PATH, "source_sha256": "c" * 64}
    (kernel / "kernel.json").write_text(json.dumps(made))
    copy = tmp_path / "copy"
    of_kernel, changed, gone = sources.copy_sources(
        copy, {DSC: "a" * 64, f"{DSC}.gone": "b" * 64}, kernel, ignore
    )
    assert changed == f"{'a' * 64}  {DSC} (the mirror's has {sha256(b'of tinc')})"
    assert gone.startswith(f"{'b' * 64}  {DSC}.gone (")
    assert of_kernel == f"{'c' * 64}  {KERNEL_PATH} (the mirror's has {sha256(KERNEL)})"
    assert not [path for path in copy.rglob("*") if path.is_file()]


def test_each_module_in_a_program_of_ours_is_listed_once() -> None:
    """Three folders have the same program."""
    listed = [part.url for part in sbom._of_registries({"quic-tunnel"})]
    assert "pkg:golang/github.com/quic-go/quic-go@v0.65.0" in listed
    assert len(listed) == len({*listed}) == 9
