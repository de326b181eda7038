# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts 3 to 6: our command with --engine controller. Part 10: `collect`.

What a stop of it, or its sudden end, leaves; its requests; its checks before a start.
"""

from __future__ import annotations

import concurrent.futures
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import requests
from launching import stored_files
from stack import AUDITORIUM_URL, COLLECTOR, CONTROLLER_URL
from steps import PROJECT, RUN_LIMIT_S, Run, ran, until

from openbach_run.engine.platform.rest import Access, Controller, Refused

TABLE = ("geo", "vpn=none,openvpn_udp", "cc=cubic")
OTHERS = (("geo", "vpn=wireguard", "pep=B", "cc=bbr", "loss=1"),)
TABLE_TEXT = "table.txt"
"""Below the temporary directory: what our command printed for TABLE, for its picture."""
SHORT = ("geo", "vpn=none", "cc=cubic", "size=1M")
LASTING = ("geo", "vpn=openvpn_udp", "cc=bbr", "pep=B", "duration_s=40")
DRAWING = ("time_series", "histogram")
START_LIMIT_S, STOP_LIMIT_S = 240.0, 180.0
REQUESTS, THREADS = 400, 16


def options(results: Path) -> tuple[str, ...]:
    return ("--seeds", "1", "--engine", "controller", "--results", str(results), "--quiet")


def cells(run: Run) -> None:
    run.record.part("3. Our command with --engine controller")
    before = run.networks()
    for number, words in enumerate((TABLE, *OTHERS)):
        newest = run.newest()
        results = run.temporary / f"results-{number}"
        code, text = ran(run, *words, *options(results))
        run.record.show(text[-3000:])
        run.record.check(f"{' '.join(words)}: the run is finished", code == 0, f"exit code {code}")
        if words == TABLE:
            (run.temporary / TABLE_TEXT).write_text(text)
        for instance in range(newest + 1, run.newest() + 1):
            run.keep(run.instance(instance), "--engine controller")
    drawn(run)
    run.nothing_left("after these runs", before)


def drawn(run: Run) -> None:
    """OpenBACH's own jobs, once they are installed, draw what a scenario with them measures."""
    address = run.stack.agents["satvpn_pc"].address
    order = {"action": "install", "names": [*DRAWING], "addresses": [address]}
    run.controller.post("job/", body=order, repeat=True)
    until(lambda: {*DRAWING} <= _installed(run, address, update=""), RUN_LIMIT_S)
    file = run.temporary / "drawn.yml"
    file.write_text("inherits: geo.yml\nvalues: {post_processing: pc, series_s: 1}\n")
    jobs = ("--jobs", str(run.checkout / "src/jobs"))
    code, text = ran(run, str(file), *SHORT[1:], *jobs, *options(run.temporary / "results-drawn"))
    drawings = {
        job: [name for name in stored_files(run, run.newest(), job, "figure") if ".png" in name]
        for job in DRAWING
    }
    told = ", ".join(name for names in drawings.values() for name in names)
    is_so = code == 0 and all(drawings.values())
    run.record.check("post_processing: time_series and histogram store figures", is_so, told)
    if not is_so:
        run.record.show(text[-2000:])


def collect_all(run: Run) -> None:
    """What other parts have launched becomes records, with which compare.py goes on."""
    run.record.part("10. Finished instances, whoever launched them, become records: `collect`")
    wanted: dict[str, list[int]] = {}
    for one in run.kept:
        name, number = one["collect"]
        if one["status"] == "Finished Ok" and number not in wanted.setdefault(name, []):
            wanted[name].append(number)
    for name, numbers in wanted.items():
        results = run.temporary / "collected" / name
        words = ("--instance", *map(str, numbers), "--results", str(results), "--quiet")
        code, text = ran(run, "collect", name, *words)
        run.record.check(f"{len(numbers)} instances of {name} are collected", code == 0)
        run.record.show(text[-5000:])
    shutil.copytree(run.temporary / "collected", run.record.directory / "collected")
    (run.record.directory / "launched.json").write_text(json.dumps(run.kept))


# Stops


def transferring(run: Run) -> bool:
    """Whether a download goes on."""
    lines = [line for found in run.jobs_running().values() for line in found]
    return any("file_transfer.py" in line and " client " in line for line in lines)


def killed_while_transferring(run: Run, *words: str) -> int:
    """Starts our command and kills it during the transfer; the number of its instance."""
    running = run.command(*words)
    until(lambda: transferring(run), START_LIMIT_S)
    running.kill()
    running.communicate()
    return run.newest()


def interrupted(run: Run, what: str, is_time: Callable[[], bool], *words: str) -> None:
    """Starts our command, and presses Ctrl-C when it is time."""
    running = run.command(*words)
    came = until(is_time, START_LIMIT_S, 0.2)
    running.send_signal(signal.SIGINT)
    text, _ = running.communicate(timeout=STOP_LIMIT_S)
    status = run.instance(run.newest())["status"]
    run.record.check(
        f"Ctrl-C {what}: the command ends with 130, and the instance is stopped",
        came and running.returncode == 130 and status == "Stopped",
        f"{running.returncode}, {status}",
    )
    run.record.show(text[-1500:])


def stops(run: Run) -> None:
    run.record.part("4. Ctrl-C, and the sudden end of the command")
    before = run.networks()
    lasting = LASTING
    place = run.temporary / "results-stops"
    newest = run.newest()
    interrupted(
        run,
        "while jobs are being started",
        lambda: run.newest() > newest,
        *lasting,
        *options(place / "starts"),
    )
    run.nothing_left("earlier defect: jobs left running by a stop during starts", before)
    interrupted(
        run,
        "during the transfer",
        lambda: transferring(run),
        *lasting,
        *options(place / "transfer"),
    )
    run.nothing_left("Ctrl-C during the transfer", before)
    killed = killed_while_transferring(run, *lasting, *options(place / "killed"))
    code, text = ran(run, *lasting, *options(place / "killed"))
    run.record.check(
        "kill -9, then the same command: it goes on with the same instance, and has its result",
        code == 0 and run.newest() == killed,
        f"exit code {code}, instance {killed}, newest {run.newest()}",
    )
    run.record.show(text[-1500:])
    run.nothing_left("after that", before)
    # So that it still runs when the next command looks.
    longer = (*LASTING[:-1], "duration_s=600")
    number = killed_while_transferring(run, *longer, *options(place / "again"))
    code, text = ran(run, *SHORT, *options(place / "other"))
    run.record.check(
        "kill -9, then another command: it starts nothing, and says how to end what runs",
        code != 0 and run.newest() == number and f"stop_scenario_instance.py {number}" in text,
        f"exit code {code}, instance {number}, newest {run.newest()}",
    )
    run.record.show(text)
    code, _ = run.auditorium("stop_scenario_instance.py", str(number))
    run.record.check(
        "the command that it names ends it",
        not code and bool(run.ended(number, STOP_LIMIT_S)["stop_date"]),
    )
    run.nothing_left("kill -9, then a stop", before)


# Requests


def ask_all(run: Run) -> None:
    run.record.part("5. Requests")
    paths = (("version/",), ("collector/",), ("agent/",), ("login/",), ("collector/", COLLECTOR))
    for what, url in (
        ("the controller's uWSGI", CONTROLLER_URL),
        ("the auditorium's proxy, which keeps connections", f"{AUDITORIUM_URL}openbach/"),
    ):
        controller = Controller(
            Access(url, run.controller.access.login, run.controller.access.password)
        )
        controller.log_in()
        begun_s = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            asked = [
                pool.submit(controller.get, *paths[number % len(paths)])
                for number in range(REQUESTS)
            ]
            lost = [str(one.exception()) for one in asked if one.exception()]
        run.record.count("requests", REQUESTS)
        run.record.count("requests answered", REQUESTS - len(lost))
        took_s = time.monotonic() - begun_s
        run.record.check(
            f"earlier defect: requests lost on kept connections. {REQUESTS}, {THREADS} at a time,"
            f" over {what}: none is lost",
            not lost,
            f"{len(lost)} lost, {took_s:.0f} s{'; ' + lost[0] if lost else ''}",
        )
    with requests.Session() as session:
        lost_plainly = 0
        for _ in range(20):
            try:
                session.get(f"{CONTROLLER_URL}version/", timeout=30)
            except requests.ConnectionError:
                lost_plainly += 1
    run.record.say(
        "for comparison: a client that trusts kept connections (requests.Session) loses"
        f" {lost_plainly} of 20 requests there"
    )


# The checks before a start


def checks_before_a_start(run: Run) -> None:
    run.record.part("6. What our command finds before a start")
    words = (*SHORT, "--seeds", "1", "--engine", "controller", "--quiet")
    pc = run.stack.agents["satvpn_pc"]
    code, text = ran(
        run, *words[:-1], "--prepare", "--results", str(run.temporary / "results-checks")
    )
    run.record.check(
        "earlier defect: the version that a 2.7 platform states (2.6.0) is taken for 2.7",
        code == 0 and "2.7 or later (it says 2.6.0)" in text,
        text.strip()[-200:],
    )
    geo = json.loads((run.package / "scenarios/geo.json").read_text())
    run.record.check(
        "earlier defect: $cc as a value is accepted by the platform",
        "$cc" in json.dumps(geo)
        and run.controller.get("project/", PROJECT, "scenario/", "geo") == geo,
    )
    # registered in the controller's database on an agent that has not got it
    gw = run.stack.agents["satvpn_gw"]
    run.controller.post(
        "job/",
        body={
            "action": "install",
            "names": ["outage"],
            "addresses": [gw.address],
            "skip_playbook": True,
        },
    )
    until(lambda: "outage" in _installed(run, gw.address), 30)
    with_outage = json.loads(json.dumps(geo))
    with_outage["name"] = "with_outage"
    with_outage["openbach_functions"].append(
        {
            "id": len(with_outage["openbach_functions"]),
            "label": "outage",
            "wait": {"time": 0, "launched_ids": [], "finished_ids": []},
            "on_fail": {},
            "start_job_instance": {
                "entity_name": "satvpn_gw",
                "outage": {"interfaces": "to_sat", "start_s": 1, "duration_s": 1},
            },
        }
    )
    file = run.temporary / "with_outage.json"
    job = json.loads(json.dumps(run.controller.get("job/", "outage")))
    required = {one["name"]: "1" for one in job["arguments"]["required"]}
    with_outage["openbach_functions"][-1]["start_job_instance"]["outage"] = required
    file.write_text(json.dumps(with_outage))
    run.record.say(
        f"the database says that {gw.address} has the job outage (registered with skip_playbook);"
        " the agent has it not"
    )
    values = (*words[1:], "pep=none", "loss=preset")  # a file of JSON has none of its own
    code, text = ran(run, str(file), *values, "--results", str(run.temporary / "results-outage"))
    run.record.check(
        "the check before a start asks the agents: the job that only the database has is named",
        code != 0 and f"outage is not installed on {gw.address}" in text,
        text.strip()[-300:],
    )
    pc.run("systemctl", "stop", "openbach_agent")
    code, text = ran(run, *words, "--results", str(run.temporary / "results-dead"))
    run.record.check(
        "an agent that cannot be reached has a message of its own",
        code != 0
        and f"the agent of satvpn_pc, {pc.address}, does not answer the controller" in text,
        text.strip()[-300:],
    )
    pc.run("systemctl", "start", "openbach_agent")
    until(lambda: ":1112" in pc.run("ss", "-ltn"), 30)


def _installed(run: Run, address: str, **asked: str) -> set[str]:
    try:
        answer = run.controller.get("job/", address=address, **asked)
    except Refused as refused:
        # OpenBACH 2.7.0 cannot show a job that is registered and has no date of its update yet.
        if "astimezone" not in str(refused):
            raise
        return set()
    return {job["name"] for job in answer["installed_jobs"]}
