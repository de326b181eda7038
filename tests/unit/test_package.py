# SPDX-License-Identifier: GPL-3.0-or-later
"""What an administrator imports.

Complete, in both formats, without anything that a controller breaks on.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from itertools import chain
from pathlib import Path

import pytest
import yaml
from helpers.job_folder import NEW, job_folder

from openbach_run.catalog import Catalog, packages_of
from openbach_run.commands import main
from openbach_run.errors import InputError
from openbach_run.openbach.expand import expand
from openbach_run.openbach.job_folders import form_of, load_packages
from openbach_run.openbach.lint import lint
from openbach_run.openbach.playbooks import BUILDING, playbooks
from openbach_run.openbach.project import for_2_6, load_scenarios
from openbach_run.openbach.reading import parse_scenario
from openbach_run.topology.inventory import load_inventory

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = load_packages([ROOT / "jobs"])
JOBS = {name: package.job for name, package in PACKAGES.items()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("package") / "out"
    assert main.main(["package", "-o", str(output)]) == 0
    return output


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_the_same_checkout_gives_the_same_files(made: Path, tmp_path: Path) -> None:
    assert main.main(["package", "-o", str(tmp_path / "again")]) == 0
    assert content(tmp_path / "again") == content(made)


def test_project_has_all_entities_and_scenarios(made: Path) -> None:
    project = json.loads((made / "project.json").read_text())
    inventory = load_inventory(ROOT / "inventory.yml")
    assert [entity["name"] for entity in project["entity"]] == [
        host.entity for host in inventory.hosts
    ]
    assert all(entity["networks"] and entity["description"] for entity in project["entity"])
    networks = {network["name"] for network in project["network"]}
    assert {
        network["name"] for entity in project["entity"] for network in entity["networks"]
    } == networks
    files = (ROOT / "scenarios").glob("*.yml")
    ours = {file.stem for file in files if "file" not in expand(file).get("x-inventory", {})}
    assert {one["name"] for one in project["scenario"]} == ours


def test_scenarios_of_another_inventory_are_packed_with_it_only() -> None:
    inventory = ROOT / "library/topologies/three_hosts.yml"
    found = load_scenarios(ROOT / "scenarios", PACKAGES, inventory)
    assert {"lan_tcp", "lan_ping", "geo"} <= {one.name for one in found}
    assert "lan_tcp" not in {
        one.name for one in load_scenarios(ROOT / "scenarios", PACKAGES, ROOT / "inventory.yml")
    }


def test_scenarios_have_nothing_that_a_controller_breaks_on(made: Path) -> None:
    project = json.loads((made / "project.json").read_text())
    for sent in [
        *project["scenario"],
        *(json.loads(file.read_text()) for file in (made / "scenarios").iterdir()),
    ]:
        scenario = parse_scenario(sent, JOBS)
        assert scenario.as_stored() == sent, "what is imported is what the backend gives back"
        assert lint(scenario, JOBS) == []
        assert scenario.description


def test_every_sub_scenario_comes_along(made: Path) -> None:
    project = json.loads((made / "project.json").read_text())
    names = {one["name"] for one in project["scenario"]}
    starts = [
        f["start_scenario_instance"]
        for one in project["scenario"]
        for f in one["openbach_functions"]
        if "start_scenario_instance" in f
    ]
    assert starts
    assert {start["scenario_name"] for start in starts} <= names


@pytest.mark.parametrize("version", ["2.6", "2.7"])
@pytest.mark.parametrize("name", PACKAGES)
def test_job_packages(made: Path, tmp_path: Path, name: str, version: str) -> None:
    with tarfile.open(made / f"jobs-{version}/{name}.tar.gz") as tar:
        assert all(member.isfile() for member in tar.getmembers())
        tar.extractall(tmp_path / name)
    files = {
        str(file.relative_to(tmp_path / name))
        for file in (tmp_path / name).rglob("*")
        if file.is_file()
    }
    wanted = {f"install_{name}.yml", f"uninstall_{name}.yml"} | {
        f"files/{name}{suffix}" for suffix in (".yml", ".help", ".py", "_rstats_filter.conf")
    }
    assert wanted <= files
    assert load_packages([tmp_path])[name].job == JOBS[name]
    block = yaml.safe_load((tmp_path / f"{name}/files/{name}.yml").read_text())[
        "platform_configuration"
    ]
    if version == "2.7":
        assert all(
            "ansible_distribution_release" in platform for platform in block["supported_platforms"]
        )
    else:
        assert [platform["ansible_distribution_version"] for platform in block] == ["24.04"]
        assert all("supported_platforms" not in platform for platform in block)


@pytest.mark.parametrize("version", ["2.6", "2.7"])
@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_playbook_sends_is_what_the_package_has(made: Path, name: str, version: str) -> None:
    """One file, not one after the other: on a real platform each takes a second or more."""
    with tarfile.open(made / f"jobs-{version}/{name}.tar.gz") as tar:
        packed = {
            one.name: (one.mode, _content(tar, one))
            for one in tar.getmembers()
            if one.name.startswith("files/")
        }
        install = yaml.safe_load(_content(tar, tar.getmember(f"install_{name}.yml")))
        (sent,) = (
            task["ansible.builtin.unarchive"]
            for task in install
            if "ansible.builtin.unarchive" in task
        )
        with tarfile.open(fileobj=io.BytesIO(_content(tar, tar.getmember(sent["src"])))) as inner:
            unpacked = {
                f"files/{one.name}": (one.mode, _content(inner, one)) for one in inner.getmembers()
            }
    assert sent["dest"] == f"/opt/openbach/agent/jobs/{name}/"
    assert unpacked == packed
    assert packed


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = tar.extractfile(member)
    assert opened
    return opened.read()


def test_vpn_configurations_travel_with_their_job(made: Path) -> None:
    with tarfile.open(made / "jobs-2.7/vpn.tar.gz") as tar:
        up = tar.getmember("files/vpn-configs/wireguard/up")
    assert up.mode & 0o111


@pytest.mark.parametrize("name", PACKAGES)
def test_uninstalling_leaves_the_hosts_tools_alone(name: str) -> None:
    """Files only, and only those that the job has brought.

    Its folder, and what it has built and installed itself.
    """
    for task in yaml.safe_load(playbooks(PACKAGES[name])[f"uninstall_{name}.yml"]):
        (module,) = (key for key in task if key.startswith("ansible."))
        assert module == "ansible.builtin.file"
        removed = task.get("loop", [task[module]["path"]])
        assert removed[0] == f"/opt/openbach/agent/jobs/{name}"
        brought = ("/etc/logrotate.d/satpep",) if name == "satpep" else ()
        assert all(path.startswith("/usr/local/") or path in brought for path in removed[1:])


@pytest.mark.parametrize("name", PACKAGES)
def test_installing_only_adds(name: str) -> None:
    for task in yaml.safe_load(playbooks(PACKAGES[name])[f"install_{name}.yml"]):
        (module,) = (key for key in task if key.startswith("ansible."))
        if module == "ansible.builtin.command":
            there = f"/opt/openbach/agent/jobs/{name}/"
            assert task[module].startswith((f"make -C {there}", f"python3 {there}"))
            continue
        assert module in (
            "ansible.builtin.apt",
            "ansible.builtin.file",
            "ansible.builtin.unarchive",
        )
        assert task[module].get("state", "present") in ("present", "directory")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_real_agent_gets_the_packages_that_the_virtual_one_gets(name: str) -> None:
    """One list: packages.txt.

    Playbooks of a job's own may add what building, modules of the kernel and the VPNs need.
    """
    install = yaml.safe_load(playbooks(PACKAGES[name])[f"install_{name}.yml"])
    wanted = [task for task in install if "ansible.builtin.apt" in task]
    names = (task.get("loop") or task["ansible.builtin.apt"]["name"] for task in wanted)
    installed = {*chain.from_iterable(names)}
    # These need no program.
    assert PACKAGES[name].debian or name in ("daemons", "transfer_table")
    assert installed >= set(PACKAGES[name].debian)
    added = {
        "satpep": {*BUILDING, "passwd"},
        "vpn": {
            one for folder in Catalog().all("vpn-configs").values() for one in packages_of(folder)
        },
        "transport_profile": {"dkms", "linux-headers-{{ ansible_kernel }}"},
    }
    assert installed - set(PACKAGES[name].debian) <= added.get(name, set())


def test_a_distribution_without_one_vpn_has_the_others() -> None:
    """One task with all names gave no WireGuard where Debian's nebula, say, is missing."""
    install = yaml.safe_load(playbooks(PACKAGES["vpn"])["install_vpn.yml"])
    needed, others = (one for one in install if "ansible.builtin.apt" in one)
    assert needed["ansible.builtin.apt"]["name"] == [*PACKAGES["vpn"].debian]
    assert "failed_when" not in needed
    assert others["ansible.builtin.apt"]["name"] == "{{ item }}"
    assert {"nebula", "wireguard-tools"} <= {*others["loop"]}
    assert "No package matching" in others["failed_when"]


def test_a_users_job_gets_playbooks_or_keeps_its_own(tmp_path: Path) -> None:
    folder = job_folder(tmp_path)
    (folder / "packages.txt").write_text("# the resolver\nbind9-dnsutils\n\niperf3 # and a tool\n")
    (folder / "files/asker").mkdir()
    (folder / "files/asker/Makefile").touch()
    made = playbooks(load_packages([tmp_path])["toy"])
    install, uninstall = (
        yaml.safe_load(made[f"{what}_toy.yml"]) for what in ("install", "uninstall")
    )
    assert install[0]["ansible.builtin.apt"]["name"] == [
        "bind9-dnsutils",
        "iperf3",
        "gcc",
        "make",
        "libc6-dev",
    ]
    assert install[1]["ansible.builtin.file"]["path"] == "/opt/openbach/agent/jobs/toy"
    assert install[2]["ansible.builtin.unarchive"]["dest"] == "/opt/openbach/agent/jobs/toy/"
    build = "make -C /opt/openbach/agent/jobs/toy/asker OUT=/usr/local/bin asker"
    assert install[3]["ansible.builtin.command"] == build
    assert uninstall[0]["loop"] == ["/opt/openbach/agent/jobs/toy", "/usr/local/bin/asker"]
    (folder / "install_toy.yml").write_text("--- []\n")
    assert playbooks(load_packages([tmp_path])["toy"])["install_toy.yml"] == "--- []\n"


def test_a_users_job_is_packed_with_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here one for Debian only, which OpenBACH 2.6 could not install."""
    folder = job_folder(tmp_path / "mine/jobs", {**NEW, "ansible_distribution": "Debian"})
    (folder / "packages.txt").write_text("datamash\n")
    assert (
        main.main(["package", "-o", str(tmp_path / "out"), "--with", str(tmp_path / "mine")]) == 0
    )
    with tarfile.open(tmp_path / "out/jobs-2.7/toy.tar.gz") as tar:
        install = tar.extractfile("install_toy.yml")
        assert install is not None and b"name: [datamash]" in install.read()
    assert not (tmp_path / "out/jobs-2.6/toy.tar.gz").exists()
    assert "not in jobs-2.6: " in capsys.readouterr().err


@pytest.mark.parametrize("line", ["iperf 3", "-y", "Iperf3", "x; rm", "{{ item }}"])
def test_a_line_that_is_no_package_is_named(tmp_path: Path, line: str) -> None:
    folder = job_folder(tmp_path)
    (folder / "packages.txt").write_text(f"iproute2\n{line}\n")
    (loaded,) = load_packages([tmp_path]).values()
    with pytest.raises(
        InputError, match=r"packages.txt, line 2: .* is no name of a Debian package"
    ):
        loaded.job.arguments  # noqa: B018


def test_words_for_the_web_ui() -> None:
    """Its strings are descriptions and helps.

    Of jobs, their arguments, statistics and scenarios.
    """
    for name, package in PACKAGES.items():
        assert package.files
        description = yaml.safe_load((package.files / f"{name}.yml").read_text())
        assert len(description["general"]["description"]) > 30, name
        assert len((package.files / f"{name}.help").read_text()) > 30, name
        assert all(statistic["description"] for statistic in description["statistics"]), name
        for _, (_, command) in {"": ((), package.job.arguments), **package.job.subcommands}.items():
            for argument in command.arguments.values():
                assert argument.description, f"{name}: {argument.name}"


def test_instructions_name_jobs_and_addresses(made: Path) -> None:
    text = (made / "README.md").read_text()
    jobs = (
        "dash_video dns_lookup file_transfer path_ready ping_series silence transfer_table"
        " transport_profile voip web_page"
    )
    assert f"install_jobs.py -j {jobs} -a 172.20.34.11   # satvpn_pc" in text
    assert "add_job.py vpn -t jobs-2.7/vpn.tar.gz" in text


def test_instructions_have_a_literal_value_for_every_argument(made: Path) -> None:
    """One value served all scenarios: with it `web` was Starlink's, at 279 Mbit/s."""
    text = (made / "README.md").read_text()
    for scenario in json.loads((made / "project.json").read_text())["scenario"]:
        (row,) = re.findall(rf"^\| `{scenario['name']}` \| (.*) \|$", text, re.MULTILINE)
        values = dict(re.findall(r"`(\w+)=([^`$]+)`", row))
        assert list(values) == list(scenario["arguments"])
        sweep = expand(ROOT / "scenarios" / f"{scenario['name']}.yml")["x-sweep"]
        for name, value in values.items():
            swept = sweep.get("values", {}).get(name, [None])[0]
            assert value == str(sweep.get("defaults", {}).get(name, swept))
    for row in (
        r"\| `web` \| .*`orbit=geo`",
        r"\| `pop_users` \| .*`size=10M`",
        r"\| `geo_loss` \| .*`loss=0` \(also `0.1`, `1`\)",
    ):
        assert re.search(row, text)


def test_instructions_tell_the_form_by_a_job_and_end_what_is_left(made: Path) -> None:
    text = (made / "README.md").read_text()
    assert "get_job_infos.py fping | grep ansible_distribution_" in text
    assert "stop_all_job_instances.py" in text
    assert "-j vpn" in text


def test_instructions_say_which_vpns_the_agents_have(made: Path) -> None:
    """Each of the values of vpn is there once: packaged, built, or brought by hand."""
    text = (made / "README.md").read_text()
    section = text.partition("### VPNs")[2].partition("## 2.")[0]
    packaged, built = (
        re.findall(r"`(\w+)`", part.partition("\n")[0])
        for part in (section.partition("has them: ")[2], section.partition("told to: ")[2])
    )
    by_hand = re.findall(r"`(\w+)`", section.partition("from where): ")[2])
    kinds = [argument.choices for argument in JOBS["vpn"].arguments.arguments.values()]
    every = next(choices for choices in kinds if choices and "wireguard" in choices)
    assert sorted([*packaged, *built, *by_hand]) == sorted({*every} - {"none"})
    assert (
        "wireguard" in packaged
        and {"vpncloud_plain", "zerotier"} <= {*built}
        and "mqvpn" in by_hand
    )
    assert '"vpncloud vpncloud"' in section and "group_vars/all" in section


def test_instructions_say_where_the_scripts_are(made: Path) -> None:
    text = (made / "README.md").read_text()
    assert "PYTHONPATH=EXTRA/apis" in text and "apis/auditorium_scripts" in text
    assert "openbach-run package --install ADDRESS --project satvpn" in text


def test_instructions_say_how_to_check_an_install(made: Path) -> None:
    text = (made / "README.md").read_text()
    installs = re.findall(r"install_jobs\.py .* -a (\S+)", text)
    assert installs
    assert installs == re.findall(r"list_installed_jobs\.py (\S+) --update", text)


def test_instructions_leave_no_job_out_without_a_word(made: Path) -> None:
    text = (made / "README.md").read_text()
    added = set(re.findall(r"add_job\.py (\S+) -t", text))
    (said,) = re.findall(
        r"^Not in this list, because no scenario of the package starts them: (.*)\. Their",
        text,
        re.M,
    )
    left_out = set(re.findall(r"`(\w+)`", said))
    packed = {file.name.removesuffix(".tar.gz") for file in (made / "jobs-2.7").iterdir()}
    assert (added | left_out, added & left_out) == (packed, set())


def test_a_description_does_not_name_some_values_as_if_they_were_all(made: Path) -> None:
    """The web UI shows nothing else of the values."""
    project = json.loads((made / "project.json").read_text())
    texts = {
        scenario["arguments"]["vpn"]
        for scenario in project["scenario"]
        if "vpn" in scenario["arguments"]
    }
    assert [text for text in texts if "another" not in text] == []


@pytest.mark.parametrize(
    ("platform", "form"),
    [
        ({"ansible_distribution_release": "noble"}, "2.7"),
        ({"ansible_distribution_version": "24.04"}, "2.6"),
        ({}, None),
    ],
)
def test_the_form_that_a_platform_takes(platform: dict[str, str], form: str | None) -> None:
    assert form_of([{"platform_configuration": []}, {"platform_configuration": [platform]}]) == form


def test_a_folder_with_other_things_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").touch()
    assert main.main(["package", "-o", str(tmp_path)]) == 2
    assert "thesis.tex" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("name", ["12", "a/b", ""])
def test_names_that_the_backend_refuses(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["package", "-o", str(tmp_path / "out"), "--project", name]) == 2
    assert "--project" in capsys.readouterr().err


def test_a_description_in_the_old_form_stays(tmp_path: Path) -> None:
    file = tmp_path / "old.yml"
    file.write_text("platform_configuration:\n  - {command: x}\n")
    assert for_2_6(file) == file.read_text()
