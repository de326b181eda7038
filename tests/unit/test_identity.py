# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's name follows from what the run uses.

Words for people and what others use leave it as it is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from openbach_run.campaign.reading import plan
from openbach_run.campaign.spec import runs_of
from openbach_run.catalog import Catalog, joined
from openbach_run.engine.local import GUEST_MODULES, guest_code
from openbach_run.engine.virtual import image, kernel
from openbach_run.engine.virtual.engine import VirtualEngine
from openbach_run.engine.virtual.image import Image
from openbach_run.engine.virtual.kernel import Kernel
from openbach_run.errors import InputError
from openbach_run.openbach.job_folders import load_packages, parts_of
from openbach_run.results.record import NOT_LOCKED
from openbach_run.semantic_hash import acting
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "iproute2_6.1_amd64",
    "nftables_1.0_amd64",
    "wireguard-tools_1.0_amd64",
    "nebula_1.9_amd64",
    "libc6_2.41_amd64",
)
NEEDS = {"": ["iproute2"], "wireguard-tools": ["libc6"]}
WIREGUARD = ("vpn=wireguard", "cc=cubic", "pep=B", "loss=0")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what runs follow from."""
    root = tmp_path_factory.mktemp("checkout")
    folders = ("jobs", "vpn-configs", "library", "kernel", "pep", "scenarios")
    for name in folders:
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, root / name, symlinks=True)
    for name in GUEST_MODULES:
        source, copy = ROOT / "src" / name, root / "src" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    shutil.copytree(ROOT / "src/openbach_jobs", root / "src/openbach_jobs", dirs_exist_ok=True)
    shutil.copy(ROOT / "inventory.yml", root)
    return root


@pytest.fixture
def checkout(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "checkout", symlinks=True))


def run_id(checkout: Path, *settings: str, packages: Iterable[str] = PACKAGES) -> str:
    catalog = Catalog((checkout,))
    jobs = load_packages(catalog.jobs, catalog)
    campaign = plan(checkout / "scenarios/geo_loss.json", settings, (1,), jobs)
    uses = joined(campaign.uses)
    parts = parts_of(uses, jobs, catalog)
    engine = VirtualEngine(checkout, guest_code(checkout, parts), cache=checkout / "cache")
    engine.kernel = Kernel(Path(), Path(), "a kernel")
    engine.image = Image(Path(), tuple(packages), "what is added", NEEDS)
    (run,) = runs_of(campaign, load_inventory(checkout / "inventory.yml"), engine.identity_of)
    return run.run_id


def tree(**differing: str) -> Image:
    return Image(Path(), PACKAGES, "what is added", NEEDS, {}, differing)


def engine_with(one: Image, kernel_differs: str = "") -> VirtualEngine:
    engine = VirtualEngine(
        ROOT, guest_code(ROOT, {"vpn-configs/wireguard": ROOT / "vpn-configs/wireguard"})
    )
    engine.kernel = Kernel(Path(), Path(), "a kernel", kernel_differs)
    engine.image = one
    return engine


def test_a_run_names_the_packages_of_its_own_that_are_not_the_locked_ones() -> None:
    wireguard, none = {"vpn-configs": ["wireguard"]}, dict[str, list[str]]()
    assert NOT_LOCKED not in engine_with(tree()).identity_of(wireguard)
    of_libc = engine_with(tree(libc6="libc6 2 (locked: 1)"))
    assert of_libc.identity_of(wireguard)[NOT_LOCKED] == "libc6 2 (locked: 1)"
    assert NOT_LOCKED not in of_libc.identity_of(none), "nothing of this run needs it"
    of_kernel = engine_with(
        tree(libc6="libc6 2 (locked: 1)"), "linux-source-8 8 (locked: linux-source-7 7)"
    )
    texts = "libc6 2 (locked: 1); linux-source-8 8 (locked: linux-source-7 7)"
    assert of_kernel.identity_of(wireguard)[NOT_LOCKED] == texts


def test_another_file_of_a_used_package_is_another_tree() -> None:
    one, other = (
        Image(Path(), PACKAGES, "", NEEDS, {"wireguard-tools_1.0_amd64": sha256})
        for sha256 in ("a" * 64, "b" * 64)
    )
    assert one.identity_with(["wireguard-tools"]) != other.identity_with(["wireguard-tools"])
    assert one.identity_with(["nebula"]) == other.identity_with(["nebula"])


def test_a_control_that_only_a_text_of_the_proxy_names_is_used(checkout: Path) -> None:
    file = checkout / "scenarios/geo_loss.json"
    scenario = json.loads(file.read_text())
    starts = [function.get("start_job_instance", {}) for function in scenario["openbach_functions"]]
    for start in starts:
        if "run" in start.get("satpep", {}):
            start["satpep"]["run"]["client_leg"] = "mss=1300,cc=bbr3"
    file.write_text(json.dumps(scenario))
    catalog = Catalog((checkout,))
    jobs = load_packages(catalog.jobs, catalog)
    (uses,) = plan(file, WIREGUARD, (1,), jobs).uses
    assert uses["congestion-controls"] == ["bbr3", "cubic"]


def replaced(old: str, new: str) -> Callable[[str], str]:
    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return edit


def added(more: str) -> Callable[[str], str]:
    return lambda text: text + more


def after_first_line(more: str) -> Callable[[str], str]:
    return lambda text: text.replace("\n", f"\n{more}\n", 1)


def in_json(path: str, value: object) -> Callable[[str], str]:
    """`openbach_functions.0.label` of a JSON text has another value."""

    def edit(text: str) -> str:
        content = json.loads(text)
        *way, last = path.split(".")
        place = content
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[last] = value
        return json.dumps(content, indent=1)

    return edit


WORDS: list[tuple[str, Callable[[str], str]]] = [
    ("vpn-configs/README.md", added("More words.\n")),
    ("vpn-configs/wireguard/up", after_first_line("# Another comment.")),
    ("vpn-configs/wireguard/vpn.json", in_json("description", "other words")),
    ("vpn-configs/wireguard/vpn.json", in_json("title", "other words")),
    ("vpn-configs/lib.sh", after_first_line("# Another comment.")),
    ("jobs/vpn/README.md", added("More words.\n")),
    ("jobs/vpn/files/vpn.py", replaced('"""', '"""Other words. ')),
    ("jobs/vpn/files/vpn.py", added("# A comment\n")),
    ("jobs/vpn/files/vpn.yml", replaced("description:", "description: Other words.")),
    ("jobs/satpep/files/satpep.yml", replaced("limits: {", "limits: {unit: '', ")),
    ("src/openbach_jobs/netem.py", replaced('"""', '"""Other words. ')),
    ("src/openbach_run/guest/director.py", replaced('"""', '"""Other words. ')),
    ("src/openbach_run/guest/director.py", added("\n\n# A comment\n")),
    ("scenarios/geo_loss.json", in_json("description", "other words")),
    ("scenarios/geo_loss.json", in_json("arguments.vpn", "other words")),
    ("scenarios/geo_loss.json", in_json("openbach_functions.0.label", "other words")),
    ("scenarios/geo_loss.json", in_json("x-constants.queue", "other words")),
]
UNUSED: list[tuple[str, Callable[[str], str]]] = [
    ("vpn-configs/nebula/up", added("exit 1\n")),
    ("vpn-configs/nebula/vpn.json", in_json("packages", ["another"])),
    ("jobs/voip/files/voip.py", added("raise SystemExit\n")),
    ("jobs/voip/files/voip.yml", replaced("voip.py", "other.py")),
    ("src/openbach_jobs/ends.py", added("x = 1\n")),
    ("pep/README.md", added("More words.\n")),
    ("scenarios/geo_loss.json", in_json("x-sweep.values.loss", ["3", "4"])),
    ("scenarios/leo.yml", replaced("value: leo", "value: meo")),
]
USED: list[tuple[str, Callable[[str], str]]] = [
    ("vpn-configs/wireguard/up", added("true\n")),
    ("vpn-configs/wireguard/vpn.json", in_json("inner_mtu", 1400)),
    ("vpn-configs/wireguard/vpn.json", in_json("packages", ["nftables"])),
    ("vpn-configs/lib.sh", added("true\n")),
    ("jobs/vpn/files/vpn.py", added("x = 1\n")),
    ("jobs/vpn/files/vpn.yml", replaced("vpn/vpn.py", "vpn/vpn2.py")),
    ("src/openbach_jobs/netem.py", added("x = 1\n")),
    ("pep/src/main.c", added("int x;\n")),
    ("jobs/satpep/files/satpep.yml", replaced("flag: --", "flag: --other-")),
    ("src/openbach_run/guest/director.py", added("x = 1\n")),
    ("scenarios/geo_loss.json", in_json("constants.queue", "codel")),
]


def edited(checkout: Path, file: str, edit: Callable[[str], str]) -> None:
    place = checkout / file
    before = place.read_text()
    place.write_text(edit(before))
    assert place.read_text() != before


@pytest.mark.parametrize(
    ("file", "edit"), [*WORDS, *UNUSED], ids=lambda one: one if isinstance(one, str) else ""
)
def test_words_and_what_is_not_used_leave_a_run_as_it_is(
    original: Path, checkout: Path, file: str, edit: Callable[[str], str]
) -> None:
    edited(checkout, file, edit)
    assert run_id(checkout, *WIREGUARD) == run_id(original, *WIREGUARD)


@pytest.mark.parametrize(
    ("file", "edit"), USED, ids=lambda one: one if isinstance(one, str) else ""
)
def test_what_is_used_makes_another_run(
    original: Path, checkout: Path, file: str, edit: Callable[[str], str]
) -> None:
    edited(checkout, file, edit)
    assert run_id(checkout, *WIREGUARD) != run_id(original, *WIREGUARD)


def test_a_vpn_that_is_added_changes_nothing(original: Path, checkout: Path) -> None:
    shutil.copytree(checkout / "vpn-configs/nebula", checkout / "vpn-configs/mine")
    assert run_id(checkout, *WIREGUARD) == run_id(original, *WIREGUARD)
    assert run_id(checkout, "vpn=mine", *WIREGUARD[1:]) != run_id(original, *WIREGUARD)


def test_a_profile_of_a_cpu_and_its_module_count_where_one_is_used(
    original: Path, checkout: Path
) -> None:
    costs = {key: {"ns_per_packet": 9000, "ns_per_byte": 1} for key in ("encrypt", "decrypt")}
    for root in (original, checkout):
        (root / "library/cpus/slow.json").write_text(json.dumps({"vpns": {"wireguard": costs}}))
    slow, source = (*WIREGUARD, "cpu=slow"), "kernel/modules/cpu_model/cpu_model.c"
    edited(checkout, source, added("int x;\n"))
    assert run_id(checkout, *WIREGUARD) == run_id(original, *WIREGUARD)
    assert run_id(checkout, *slow) != run_id(original, *slow) != run_id(original, *WIREGUARD)
    shutil.copy(original / source, checkout / source)
    assert run_id(checkout, *slow) == run_id(original, *slow)
    edited(checkout, "library/cpus/slow.json", in_json("queue_packets", 5))
    assert run_id(checkout, *slow) != run_id(original, *slow)


def test_versions_of_packages_count_where_they_are_used(original: Path) -> None:
    def of(package: str, *settings: str) -> str:
        versions = [
            one.replace("_", "_9", 1) if one.startswith(f"{package}_") else one for one in PACKAGES
        ]
        return run_id(original, *settings, packages=versions)

    without = ("vpn=none", *WIREGUARD[1:])
    for settings, used, unused in (
        (WIREGUARD, ("iproute2", "wireguard-tools", "libc6"), ("nebula",)),
        (without, ("iproute2",), ("wireguard-tools", "libc6", "nebula")),
    ):
        assert all(of(package, *settings) != run_id(original, *settings) for package in used)
        assert all(of(package, *settings) == run_id(original, *settings) for package in unused)


def test_of_the_kernel_comments_do_not_count(tmp_path: Path) -> None:
    for name in ("config", "patches/group/1.patch", "patches/group/2.patch", "src/a.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "config").write_text("# Networks\nCONFIG_NET=y\n")
    mail = "From: us\n\nWhy\n---\n x.c | 2 +-\n\n--- a/x.c\n+++ b/x.c\n@@ -1 +1 @@\n-a\n+b\n"
    (tmp_path / "patches/group/1.patch").write_text(mail)
    (tmp_path / "patches/group/2.patch").write_text(mail.replace("x.c", "y.c"))
    (tmp_path / "series").write_text("# Order\ngroup/1.patch\ngroup/2.patch\n")
    (tmp_path / "src/a.c").write_text('int a; /* a\n comment */ char *b = "// none";\n')
    before = kernel._acting_hash(tmp_path)
    for name, old, new in (
        ("config", "Networks", "TCP"),
        ("patches/group/1.patch", "Why", "Because"),
        ("series", "Order", "In turn"),
        ("src/a.c", "a\n", "b"),
    ):
        edited(tmp_path, name, replaced(old, new))
        assert kernel._acting_hash(tmp_path) == before
    for name, old, new in (
        ("config", "=y", "=n"),
        ("patches/group/1.patch", "+b\n", "+c\n"),
        ("series", "1.patch\ngroup/2.patch", "2.patch\ngroup/1.patch"),
        ("src/a.c", "// none", "// one"),
    ):
        edited(tmp_path, name, replaced(old, new))
        assert kernel._acting_hash(tmp_path) != before
        before = kernel._acting_hash(tmp_path)


def test_what_acts_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def identity() -> str:
        return image.code_identity(tmp_path / "cache", {"jobs/one": tmp_path / "one.py"})

    (tmp_path / "one.py").write_text("print(1)\n")
    first = identity()
    (tmp_path / "one.py").write_text("print(1)  # words\n")
    assert identity() == first
    monkeypatch.setattr(image, "acting", None)
    assert identity() == first
    (tmp_path / "one.py").write_text("print(1)\n")
    assert identity() == first


def test_a_here_document_counts_whole(tmp_path: Path) -> None:
    file = tmp_path / "up"
    file.write_text("#!/bin/sh\n# words\ncat > conf << 'EOF'\n# of conf\nEOF\n# more words\n")
    assert acting(file) == b"#!/bin/sh\ncat > conf << 'EOF'\n# of conf\nEOF\n"


def test_python_keeps_its_texts(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(
        '"""Words\nand more."""\n\nA = "# no comment"  # comment\n"""About A."""\n\n\ndef f():\n   '
        ' """Words."""\n'
    )
    assert acting(file) == b'A = "# no comment"\n\ndef f():\n'.replace(b"\n\n", b"\n")


@hypothesis_settings(deadline=None)
@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        for name in ("a.py", "b.sh", "c.json", "d.yml", "e.c", "f.patch", "g"):
            file = Path(directory) / name
            file.write_text(text, encoding="utf-8", errors="surrogatepass")
            acting(file)


@pytest.mark.parametrize("target", ["secret", "folder", "."])
def test_a_link_out_of_a_job_is_refused(tmp_path: Path, target: str) -> None:
    """Another's job could have one to anything that its user may read."""
    files, elsewhere = tmp_path / "theirs/jobs/evil/files", tmp_path / "home/folder"
    elsewhere.mkdir(parents=True)
    (tmp_path / "home/secret").write_text("secret")
    (elsewhere / "inner").write_text("secret")
    files.mkdir(parents=True)
    (files / "stolen").symlink_to(tmp_path / "home" / target)
    with pytest.raises(
        InputError,
        match=r"theirs/jobs/evil/files/stolen: a link to .*, which is not in .*/theirs; put",
    ):
        image.code_identity(tmp_path / "cache", {"jobs/evil": files})
    assert not list((tmp_path / "cache").glob("code-*"))


def test_a_satellite_or_a_folder_that_is_a_link_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/secret").write_text("secret")
    for kind, name, target in (
        ("satellites", "evil.yml", "home/secret"),
        ("vpn-configs", "evil", "home"),
    ):
        (tmp_path / "theirs" / kind).mkdir(parents=True)
        (tmp_path / "theirs" / kind / name).symlink_to(tmp_path / target)
        with pytest.raises(InputError, match=f"{kind}/{name}: a link to"):
            image.code_identity(
                tmp_path / "cache", {f"{kind}/{name}": tmp_path / "theirs" / kind / name}
            )


def test_links_to_parts_that_several_jobs_share_are_followed(tmp_path: Path) -> None:
    files = tmp_path / "theirs/jobs/mine/files"
    files.mkdir(parents=True)
    (tmp_path / "theirs/jobs/parts").mkdir()
    (tmp_path / "theirs/jobs/parts/part.py").write_text("pass")
    (files / "part.py").symlink_to("../../parts/part.py")
    (files / "ours.py").symlink_to(ROOT / "src/openbach_jobs/command.py")
    (files / "parts").symlink_to("../../parts")
    assert [one.name for one in image._files(files)] == ["ours.py", "part.py", "part.py"]
