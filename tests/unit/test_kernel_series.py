# SPDX-License-Identifier: GPL-3.0-or-later
"""kernel/series: its form, its order, and that a patch is applied to the letter or not at all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openbach_run.engine.virtual import series
from openbach_run.errors import SetupError

KERNEL_DIR = Path(__file__).resolve().parents[2] / "kernel"
NAMES = series.names(KERNEL_DIR)
GROUPS = ["determinism", "observability", "safety", "speed"]
UPSTREAM = r"Pending|Submitted \[.+\]|Accepted|Backport \[.+\]|Denied|Inappropriate \[.+\]"
SOURCE = "".join(f"int line_{number};\n" for number in range(12))
PATCH = """\
--- a/file.c
+++ b/file.c
@@ -4,7 +4,7 @@
 int line_3;
 int line_4;
 int line_5;
-int line_6;
+int ours;
 int line_7;
 int line_8;
 int line_9;
"""


def group(name: str) -> str:
    return name.partition("/")[0]


def trailers(name: str, key: str) -> list[str]:
    """The values of a trailer of a patch's message."""
    message = (KERNEL_DIR / "patches" / name).read_text(encoding="utf-8").partition("\n---\n")[0]
    return re.findall(rf"^{key}: (.+)$", message, re.MULTILINE)


def test_groups_are_whole_and_in_order() -> None:
    groups = [group(name) for name in NAMES]
    assert groups == sorted(groups, key=GROUPS.index)
    assert set(groups) == set(GROUPS)


def test_every_patch_is_listed() -> None:
    assert [
        str(one.relative_to(KERNEL_DIR / "patches")) for one in series.patches(KERNEL_DIR)
    ] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_patch_is_a_mail_of_git(name: str) -> None:
    text = (KERNEL_DIR / "patches" / name).read_text(encoding="utf-8")
    assert re.match(r"From 0{40} .*\nFrom: .+ <.+@.+>\nDate: .+\nSubject: \[PATCH\] \S.*\n", text)
    (status,) = trailers(name, "Upstream-Status")
    assert re.fullmatch(UPSTREAM, status), status
    assert trailers(name, "Signed-off-by")
    assert re.search(r"^ \d+ files? changed, ", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_a_patch_needs_only_what_comes_before(name: str) -> None:
    assert set(trailers(name, "Depends-on")) <= set(NAMES[: NAMES.index(name)])


def test_without_speed_all_other_groups_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(series.WITHOUT_VARIABLE, "speed")
    groups = [one.parent.name for one in series.patches(KERNEL_DIR)]
    assert groups == [group(name) for name in NAMES if group(name) != "speed"]
    assert [one.name for one in series.sources(KERNEL_DIR)] == [
        "capture.c",
        "capture_digest.h",
        "capture_user.c",
        "capture_user.h",
        "host_noise.c",
    ]


def test_no_other_group_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(series.WITHOUT_VARIABLE, "determinism")
    with pytest.raises(SetupError, match="only speed can be left out"):
        series.patches(KERNEL_DIR)


def test_a_patch_that_nobody_listed_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "patches/speed").mkdir(parents=True)
    (tmp_path / "patches/speed/new.patch").write_text(PATCH)
    (tmp_path / series.FILE).write_text("speed/old.patch\n")
    with pytest.raises(SetupError, match=r"differ: speed/new\.patch, speed/old\.patch"):
        series.patches(tmp_path)


def applied(tmp_path: Path, source: str) -> str:
    """The source after the patch."""
    patch = tmp_path / "group/our.patch"
    patch.parent.mkdir()
    patch.write_text(PATCH)
    (tmp_path / "file.c").write_text(source)
    series.apply(patch, tmp_path)
    return (tmp_path / "file.c").read_text()


def test_a_hunk_may_have_moved(tmp_path: Path) -> None:
    assert applied(tmp_path, "int before;\n" + SOURCE) == "int before;\n" + SOURCE.replace(
        "line_6", "ours"
    )
    assert not list(tmp_path.glob("*.orig"))


def test_fuzz_is_an_error_that_names_the_patch(tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"applying kernel/patches/group/our\.patch without fuzz failed"
    ):
        applied(tmp_path, SOURCE.replace("line_3;", "line_three;"))
