# SPDX-License-Identifier: GPL-3.0-or-later
"""Part 7: the same by clicks in OpenBACH's own web UI, in Debian's Chromium. Part 9: a table so.

There is a picture of each step.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine import TABLE, TABLE_TEXT
from launching import follow_table, judge, newest_of, stored_files
from playwright.sync_api import Browser, Page, expect, sync_playwright
from record import Record
from stack import AUDITORIUM_URL, LOGIN, PASSWORD
from steps import INSTANCE_LIMIT_S, PROJECT, Run, until

CHROMIUM = "/usr/lib/chromium/chromium"
"""Not Debian's script around it, which looks for SSE3 in /proc/cpuinfo: the guest's names no such
thing."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
SIZE = {"width": 1100, "height": 720}
MOST_FIELDS = 6
SERVER_ERROR = 500
SCENARIOS = ("geo", "web", "voip", "multi_flow")
SHOWN = "geo"
"""Of which there are pictures."""
MOST_BYTES = 120_000
LIMIT_MS = 180_000


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


class Hand:
    """Clicks in OpenBACH's web UI at `url`.

    Whose it is, is said in the record and in the pictures' names.
    """

    def __init__(self, page: Page, url: str, record: Record, name: str) -> None:
        self.page, self.url, self.record, self.name = page, url, record, name
        self.clicks = 0
        page.set_default_timeout(LIMIT_MS)

    def picture(self, what: str) -> None:
        file = Path(self.record.picture(f"{self.name}-{what}"))
        self.page.screenshot(path=file, animations="disabled")  # the UI fades things in
        shrink(file)

    def log_in(self, login: str, password: str) -> None:
        self.page.goto(f"{self.url}app/")
        self.page.get_by_label("Username").fill(login)
        self.page.get_by_label("Password").fill(password)
        self.click("button", "Authenticate")
        expect(self.page.get_by_label("Username")).to_be_hidden(timeout=LIMIT_MS)

    def click(self, role: str, name: str) -> None:
        self.page.get_by_role(role, name=name, exact=True).first.click()  # type: ignore[arg-type]
        self.clicks += 1
        self.record.count("clicks")

    def scenarios(self) -> list[str]:
        """Opens the project's list of scenarios; their names."""
        if not self.page.get_by_role("tab", name="Scenarios", exact=True).is_visible():
            project = self.page.locator("a", has=self.page.get_by_text(PROJECT, exact=True)).first
            public = self.page.get_by_text("Public Projects", exact=True)
            expect(project.or_(public).first).to_be_visible(timeout=LIMIT_MS)
            if not project.is_visible():  # one without an owner, as serve has it
                public.click()
                self.clicks += 1
            project.click()
            self.clicks += 1
        self.click("tab", "Scenarios")
        expect(self.page.get_by_text("geo_loss_table", exact=True).first).to_be_visible(
            timeout=LIMIT_MS
        )
        shown = self.page.locator(
            f"a[href*='/app/project/{PROJECT}/scenario/'] .MuiListItemText-primary"
        )
        return shown.all_inner_texts()

    def open_dialog(self, scenario: str) -> list[str]:
        """The start dialog; the names of its fields."""
        row = self.page.locator(f"a[href='/app/project/{PROJECT}/scenario/{scenario}']")
        row.get_by_label("Launch").click()
        self.clicks += 1
        self.record.count("clicks")
        dialog = self.page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name="Launch")).to_be_visible(timeout=LIMIT_MS)
        return [
            label.removesuffix("*").strip() for label in dialog.locator("label").all_inner_texts()
        ]

    def fill(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self.page.get_by_role("dialog").get_by_label(name, exact=False).fill(value)

    def launch(self) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name="Launch").click()
        self.clicks += 1
        self.record.count("clicks")

    def show_newest(self) -> None:
        """The list of instances, and the dialog of the newest one."""
        self.click("tab", "Instances")
        panel = self.page.locator(
            ".MuiListItemButton-root:visible",
            has=self.page.get_by_text("Delete Selected Instances"),
        )
        expect(panel.first).to_be_visible(timeout=LIMIT_MS)
        self.page.locator(".MuiListItemButton-root:visible").filter(
            has_not_text="Delete Selected"
        ).first.click()
        self.clicks += 1
        expect(self.page.get_by_role("dialog")).to_be_visible(timeout=LIMIT_MS)

    def close(self) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name="OK", exact=True).click()

    def import_scenario(self, file: Path) -> None:
        self.page.locator("input[type=file]").first.set_input_files(str(file))
        self.click("button", "Import Scenario")
        expect(self.page.get_by_role("heading", name=f"Scenario {file.stem}")).to_be_visible(
            timeout=LIMIT_MS
        )


def shrink(file: Path) -> None:
    """A palette of 256 colours: a screenshot of a UI loses nothing that one sees."""
    from PIL import Image

    with Image.open(file) as opened:
        opened.convert("RGB").quantize(256).save(file, optimize=True)


def picture_of(run: Run, path: str = f"app/project/{PROJECT}") -> None:
    """A picture of one of the web UI's pages, for whoever holds a platform."""
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        hand = Hand(page, AUDITORIUM_URL, run.record, "held")
        hand.log_in(LOGIN, PASSWORD)
        page.goto(f"{hand.url}{path}")
        page.wait_for_load_state("networkidle")
        hand.picture(path.replace("/", "-"))


def click_all(run: Run) -> None:
    run.record.part("7. By clicks in OpenBACH's web UI")
    before = run.networks()
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        failed: list[str] = []
        page.on(
            "response",
            lambda answer: (
                failed.append(f"{answer.status} {answer.url}")
                if answer.status >= SERVER_ERROR
                else None
            ),
        )
        page.on("requestfailed", lambda request: failed.append(f"{request.failure} {request.url}"))
        hand = Hand(page, AUDITORIUM_URL, run.record, "openbach")
        hand.log_in(LOGIN, PASSWORD)
        import_by_clicks(run, hand)
        listed = hand.scenarios()
        page.get_by_text("geo", exact=True).first.scroll_into_view_if_needed()
        hand.picture("1-scenarios")
        run.record.check("the list shows every scenario", len(listed) >= 13, f"{len(listed)} shown")
        for name in SCENARIOS:
            launch_by_clicks(run, hand, name)
        # Of an answer that the backend could not give, the UI throws an object.
        own = [error for error in errors if error != "Object" or not failed]
        for answer in dict.fromkeys(failed):
            run.record.say(f"the backend fails the web UI: {answer}")
        run.record.check(
            "the web UI has no error of its own on these pages", not own, "; ".join(own)[:300]
        )
        run.record.say(f"{hand.clicks} clicks")
        page.close()
        run.nothing_left("after these", before)
        picture_of_table(run, browser)
    sizes = {file.name: file.stat().st_size for file in run.record.directory.glob("*.png")}
    too_big = [f"{name}: {size}" for name, size in sizes.items() if size > MOST_BYTES]
    run.record.check(
        f"each picture has less than {MOST_BYTES // 1000} kB", not too_big, ", ".join(too_big)
    )


def import_by_clicks(run: Run, hand: Hand) -> None:
    """Import a scenario's file, under a name of its own."""
    file = run.temporary / "imported.json"
    scenario = json.loads((run.package / "scenarios/geo.json").read_text())
    file.write_text(json.dumps({**scenario, "name": file.stem}))
    hand.scenarios()
    hand.import_scenario(file)
    run.record.check("Import Scenario takes a file by clicks", True)


def launch_by_clicks(run: Run, hand: Hand, scenario: str) -> None:
    hand.scenarios()
    newest = run.newest()
    fields = hand.open_dialog(scenario)
    run.record.check(
        f"{scenario}: the start dialog asks for at most {MOST_FIELDS} fields",
        0 < len(fields) <= MOST_FIELDS,
        ", ".join(fields),
    )
    values = run.values(scenario)
    hand.fill({name: values[name] for name in fields})
    if scenario == SHOWN:
        hand.picture("2-start")
    hand.launch()
    run.record.count("launched by clicks")
    started = until(lambda: run.newest() > newest, 30)
    run.record.check(f"{scenario}: a click starts an instance", started)
    if not started:
        return
    number = run.newest()
    hand.show_newest()
    if scenario == SHOWN:
        expect(
            hand.page.get_by_role("dialog").get_by_text("job instance id").nth(8)
        ).to_be_attached(timeout=LIMIT_MS)
        hand.picture("3-running")
    # A page with an instance that runs draws 60 times a second: nobody looks at it meanwhile.
    hand.page.goto("about:blank")
    instance = run.ended(number, INSTANCE_LIMIT_S)
    hand.page.goto(f"{hand.url}app/")
    hand.scenarios()
    hand.show_newest()
    expect(hand.page.get_by_role("dialog").get_by_text("Duration of").first).to_be_visible(
        timeout=LIMIT_MS
    )
    hand.picture("4-finished" if scenario == SHOWN else f"finished-{scenario}")
    hand.close()
    judge(run, f"{scenario}, launched by clicks", instance)
    run.keep(instance, "clicks")


def table_by_click(run: Run, name: str = "geo_loss_table") -> None:
    run.record.part(f"9. {name} by one click")
    before, newest = run.networks(), newest_of(run, name)
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        hand = Hand(page, AUDITORIUM_URL, run.record, "openbach")
        hand.log_in(LOGIN, PASSWORD)
        hand.scenarios()
        values = run.values(name) | ({"size": run.size} if run.size else {})
        fields = hand.open_dialog(name)
        hand.fill({one: values[one] for one in fields})
        hand.launch()
        run.record.count("launched by clicks")
        # 36 scenarios of 26 functions are written to the database before the list has it.
        run.record.check(f"{name} is launched", until(lambda: newest_of(run, name) > newest, 300))
        page.goto("about:blank")
        follow_table(run, name, number := newest_of(run, name))
        page.goto(f"{hand.url}app/")
        hand.scenarios()
        hand.click("tab", "Instances")
        page.wait_for_load_state("networkidle")
        hand.picture("6-table-finished")
    files = stored_files(run, number, "transfer_table", "table_png", "table_csv")
    run.record.check("table.png and table.csv are exported", len(files) >= 2, ", ".join(files))
    for kept, content in files.items():
        if kept.endswith(".png"):
            Path(run.record.picture("openbach-7-table")).write_bytes(content)
        else:
            run.record.show(content.decode())
    run.nothing_left("after these", before)


def picture_of_table(run: Run, browser: Browser) -> None:
    """The table that our command makes, as a terminal shows it."""
    file = run.temporary / TABLE_TEXT
    if not file.exists():
        run.record.say("no picture of the table: part 3 was not done")
        return
    text = file.read_text()
    typed = f"$ openbach-run {' '.join(TABLE)} --engine controller"
    page = browser.new_page(viewport={"width": 1100, "height": 320})
    style = (
        "background:#1e1e1e;color:#e6e6e6;font:15px"
        " monospace;padding:1rem;margin:0;white-space:pre-wrap"
    )
    page.set_content(
        "<body style='margin:0'><pre"
        f" style='{style}'>{html.escape(typed)}\n\n{html.escape(text)}</pre></body>"
    )
    picture = Path(run.record.picture("openbach-5-table"))
    page.locator("pre").screenshot(path=picture)
    shrink(picture)
    page.close()
