# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 8: the same clicks and auditorium scripts against our own `serve`.

What it answers otherwise is listed. Nothing is launched there: a guest starts no other guest.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import requests
from clicks import SIZE, Hand, chromium
from stack import CONTROLLER_URL, LOGIN, PASSWORD
from steps import PROJECT, Run, session, until

SERVE_PASSWORD = "of a test of serve"
SERVE_URL = "http://127.0.0.1:8000/"
LIMIT_S = 300.0
UNPREPARED = """
import sys
from openbach_run.engine.local import LocalEngine
LocalEngine.prepare = lambda *_: None
from openbach_run.commands.main import main
sys.exit(main(sys.argv[1:]))
"""
"""Our command, whose engine builds no kernel: it starts nothing."""
ROUTES: tuple[tuple[str, str, dict[str, Any] | None], ...] = (
    ("GET", "version/", None),
    ("GET", "login/", None),
    ("GET", "login/users/", None),
    ("GET", "project/", None),
    ("GET", f"project/{PROJECT}/", None),
    ("GET", f"project/{PROJECT}/entity/", None),
    ("GET", f"project/{PROJECT}/scenario/", None),
    ("GET", f"project/{PROJECT}/scenario/geo/", None),
    ("GET", f"project/{PROJECT}/scenario/nothing/", None),
    ("GET", "project/nothing/", None),
    ("GET", "agent/", None),
    ("GET", "agent/?update", None),
    ("GET", "collector/", None),
    ("GET", "job/", None),
    ("GET", "job/vpn/", None),
    ("GET", "job/vpn/?type=help", None),
    ("GET", "job/vpn/?type=statistics", None),
    ("GET", "job/vpn/?type=keywords", None),
    ("GET", "job/vpn/?type=agents", None),
    ("GET", "job/nothing/", None),
    ("GET", "job/?address=172.20.34.12", None),
    ("GET", "job/?address=172.20.34.12&update", None),
    ("GET", "job/?address=192.0.2.1", None),
    ("GET", "job/?string_to_search=vpn", None),
    ("GET", "job_instance/?address=172.20.34.12", None),
    ("GET", "job_instance/999999/", None),
    ("GET", "scenario_instance/999999/", None),
    ("GET", f"project/{PROJECT}/scenario_instance/?quiet&offset=0&limit=15", None),
    ("GET", "logs/", None),
    ("GET", f"statistics/{PROJECT}/", None),
    ("GET", "nothing/", None),
    ("GET", "version", None),
    ("POST", f"project/{PROJECT}/scenario/", {"name": "no_functions"}),
    ("POST", f"project/{PROJECT}/scenario/", {"openbach_functions": []}),
    ("POST", f"project/{PROJECT}/scenario/geo/scenario_instance/", {"arguments": {}}),
    ("POST", f"project/{PROJECT}/scenario/geo/scenario_instance/", {"arguments": {"nothing": "1"}}),
    ("POST", f"project/{PROJECT}/scenario/nothing/scenario_instance/", {"arguments": {}}),
    ("POST", "scenario_instance/999999/", {}),
    ("DELETE", "scenario_instance/999999/", None),
    (
        "POST",
        "job_instance/",
        {"action": "start", "agent_ip": "172.20.34.12", "job_name": "nothing", "instance_args": {}},
    ),
    ("POST", "job_instance/", {"action": "stop", "job_instance_ids": [999999]}),
)
"""What is asked of both."""
SCRIPTS: tuple[tuple[str, ...], ...] = (
    ("list_projects.py",), ("list_scenarios.py", PROJECT), ("list_agents.py",),
    ("list_collectors.py",), ("list_jobs.py",), ("get_project.py", PROJECT),
    ("get_scenario.py", "geo", PROJECT), ("get_job_infos.py", "vpn"), ("get_job_help.py", "vpn"),
    ("get_job_stats.py", "vpn"), ("list_installed_jobs.py", "172.20.34.12", "--update"),
    ("list_job_instances.py", "172.20.34.12"), ("list_scenario_instances.py", "-p", PROJECT),
    ("status_scenario_instance.py", "999999"), ("stop_scenario_instance.py", "999999"),
    ("start_job_instance.py", "172.20.34.11", "path_ready", "{}"), ("get_job_help.py", "nothing"),
)  # fmt: skip


def shape(value: Any, depth: int = 3) -> Any:
    """What an answer is made of: its keys, and of lists the first member's."""
    if depth == 0:
        return "…"
    if isinstance(value, dict):
        return {key: shape(one, depth - 1) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0], depth - 1)] if value else []
    return type(value).__name__ if value is not None else "null"


def differences(run: Run) -> list[str]:
    """Where the REST answers are not of the same status, or not of the same keys."""
    ours, theirs = session(SERVE_URL, SERVE_PASSWORD), session(CONTROLLER_URL, PASSWORD)
    found = []
    for method, route, body in ROUTES:
        try:
            answers = [
                one.request(method, url + route, json=body, timeout=60)
                for one, url in ((theirs, CONTROLLER_URL), (ours, SERVE_URL))
            ]
        except requests.ConnectionError as error:  # an answer before the body has been read
            found.append(f"{method} {route}: {error}")
            continue
        run.record.count("requests asked of both", 1)
        statuses = [answer.status_code for answer in answers]
        if statuses[0] != statuses[1]:
            found.append(
                f"{method} {route} {json.dumps(body) if body else ''}: OpenBACH {statuses[0]},"
                f" serve {statuses[1]}"
            )
            continue
        shapes = [_keys(answer) for answer in answers]
        missing, more = shapes[0] - shapes[1], shapes[1] - shapes[0]
        if missing or more:
            found.append(
                f"{method} {route}: serve's answer lacks {sorted(missing)}, has beside"
                f" {sorted(more)}"
            )
    return found


def _keys(answer: requests.Response) -> set[str]:
    try:
        said = answer.json()
    except ValueError:
        return set()
    if isinstance(said, list):
        said = said[0] if said else {}
    return set(said) if isinstance(said, dict) else set()


def serve_all(run: Run) -> None:
    run.record.part("8. The same against our own serve")
    directory = run.temporary / "serve"
    directory.mkdir(exist_ok=True)
    secret = directory / "password"
    secret.write_text(f"{SERVE_PASSWORD}\n")
    secret.chmod(0o600)
    frontend = run.checkout / "ansible/roles/install_auditorium/files/frontend"
    words = [
        "serve",
        "--web-ui",
        str(frontend),
        "--password-file",
        str(secret),
        "--results",
        str(directory / "results"),
    ]
    run.record.say(f"`openbach-run {' '.join(words)}`")
    log = (directory / "log").open("w")
    serving = subprocess.Popen(
        [sys.executable, "-P", "-c", UNPREPARED, *words],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        up = until(_is_up, LIMIT_S)
        run.record.check("serve is up", up, "" if up else (directory / "log").read_text()[-500:])
        if up:
            compare(run, directory)
            by_clicks(run)
    finally:
        serving.send_signal(signal.SIGINT)
        serving.wait(60)


def _is_up() -> bool:
    try:
        return requests.get(f"{SERVE_URL}version/", timeout=5).ok
    except requests.RequestException:
        return False


def compare(run: Run, directory: Path) -> None:
    found = differences(run)
    run.record.check(
        f"earlier defect: REST differences. {len(ROUTES)} requests asked of both; the differences"
        " are listed",
        True,
        f"{len(found)} differ",
    )
    for line in found:
        run.record.say(line)
    access = {"controller": "127.0.0.1", "login": LOGIN, "password": SERVE_PASSWORD}
    (directory / "controller").write_text(json.dumps(access))
    other = []
    for script, *words in SCRIPTS:
        theirs, said = run.auditorium(script, *words)
        ours, text = run.auditorium(script, *words, directory=directory)
        if theirs != ours:
            other.append(
                f"`{script} {' '.join(words)}`: with OpenBACH exit code {theirs}, with serve"
                f" {ours}: " + " ".join((text if ours else said).split())[-160:]
            )
    run.record.check(
        f"{len(SCRIPTS)} auditorium scripts end alike with both; the others are listed",
        True,
        f"{len(other)} differ",
    )
    for line in other:
        run.record.say(line)


def by_clicks(run: Run) -> None:
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        hand = Hand(page, SERVE_URL, run.record, "serve")
        run.record.say(
            "serve has a login page of its own, in place of the web UI's dialog, and its project is"
            " under Public Projects"
        )
        page.goto(f"{SERVE_URL}app/")
        page.get_by_label("Password").fill(SERVE_PASSWORD)
        hand.click("button", "Log in")
        page.wait_for_url(lambda address: "login" not in address)
        page.goto(f"{SERVE_URL}app/")
        listed = hand.scenarios()
        run.record.check(
            "serve: OpenBACH's web UI lists the package's scenarios",
            len(listed) >= 12,
            f"{len(listed)} shown",
        )
        hand.picture("1-scenarios")
        fields = hand.open_dialog("geo")
        run.record.check(
            "serve: the start dialog of geo has the same fields",
            fields == run.arguments_of("geo"),
            ", ".join(fields),
        )
        values = run.values("geo") | {"size": "1M", "loss": "0"}
        hand.fill({name: values[name] for name in fields})
        hand.picture("2-start")
        page.close()
