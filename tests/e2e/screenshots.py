"""Takes pictures of every page from a real run of the demo: both themes, wide and phone, full of
data and empty. `make screenshots` runs it; --readme also renews the three in the README."""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.e2e.conftest import CHROMIUM, FLAGS, Site

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "screenshots"
README = ROOT / "docs" / "guides" / "pictures"
SIZES = {"wide": (1280, 800), "phone": (390, 844)}
BASE = "/o/default/p/default"


@contextmanager
def running(app: str) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder:
        site = Site(Path(folder), app)
        try:
            yield site
        finally:
            site.close()


def fill(site: Site, seconds: float) -> dict[str, str]:
    """Lets the demo work for a while, with a queue paused, a schedule and a weight; tells the pages
    that there are."""
    site.api.post("/queues", json={"name": "invoices", "description": "sent at night"})
    site.api.patch("/queues/invoices", json={"settings": {"accept_while_paused": True}})
    site.api.post("/queues/invoices/pause")
    schedule = site.api.post(
        "/schedules",
        json={"name": "nightly-report", "queue": "reports", "job_type": "make_report"}
        | {"cron": "0 3 * * *", "zone": "Europe/Berlin", "payload": {"pages": 3}},
    ).json()["id"]
    site.api.post(
        "/schedules",
        json={"name": "sweep", "queue": "default", "job_type": "remind"}
        | {"every_seconds": 10, "payload": {"user": "everybody"}},
    )
    for rule in (
        {"name": "invoices pile up", "kind": "queue_size", "queue": "invoices", "threshold": 20},
        {"name": "failures", "kind": "failed_jobs", "window_seconds": 600},
        {"name": "silent workers", "kind": "workers_down"},
    ):
        site.api.post("/alerts", json=rule)
    site.api.post("/dependencies", json={"name": "stripe"})
    site.api.post("/dependencies", json={"name": "mail server"})
    site.api.post("/circuits/open", json={"dependency": "mail server"})
    hook = site.api.post(
        "/webhooks",
        json={"name": "ops-hook", "url": "https://hooks.example.com/taskforge"}
        | {"kinds": ["job.failed", "alert", "queue"], "description": "tells the team on call"},
    ).json()["webhook"]["id"]
    for queue, policy in (
        ("emails", {"max_workers": 6, "target_queue_length": 4}),
        ("reports", {"max_workers": 3, "min_workers": 2}),
    ):
        site.api.put(f"/queues/{queue}/scaling", json=policy)
    waiting = site.enqueue("send_email", "invoices", to="ada@example.org")
    for number in range(23):
        site.enqueue("send_email", "invoices", to=f"user{number}@example.org")
    time.sleep(seconds)
    site.api.post(f"/schedules/{schedule}/run")
    worker = site.api.get("/workers").json()["items"][0]["id"]
    site.api.put(f"/queues/reports/assignments/{worker}", json={"weight": 50})
    group = site.api.get("/failures", params={"job_type": "charge_card"}).json()["items"][0]["id"]
    queues = {one["name"]: one["id"] for one in site.api.get("/queues").json()["items"]}

    def newest(**query: object) -> str:
        found = site.api.get("/jobs", params={"limit": 1, **query}).json()["items"]
        return str(found[0]["id"]) if found else waiting

    return {
        "overview": "?period=15m",
        "queues": "queues",
        "queue": f"queues/{queues['reports']}",
        "queue-settings": f"queues/{queues['crm']}?tab=settings",
        "dead-letters": f"queues/{queues['payments-dead']}?tab=dead",
        "jobs": "jobs",
        "jobs-filtered": "jobs?status=scheduled&status=processing",
        "job-waiting": f"jobs/{waiting}",
        "job-running": f"jobs/{newest(status='processing', job_type='make_report')}",
        "job-failed": f"jobs/{newest(queue='payments-dead')}",
        "job-succeeded": f"jobs/{newest(status='succeeded', job_type='make_report')}",
        "enqueue": "enqueue?queue=emails",
        "failures": "failures",
        "failure-group": f"failures/{group}",
        "webhooks": "webhooks",
        "webhook": f"webhooks/{hook}",
        "schedules": "schedules",
        "scaling": "scaling",
        "scaling-policy": f"scaling/{queues['emails']}",
        "alerts": "alerts",
        "circuits": "circuits",
        "schedule": f"schedules/{schedule}",
        "new-schedule": "schedules/new",
        "workers": "workers",
        "worker": f"workers/{worker}",
        "assignments": "assignments",
        "cluster": "cluster",
        "projects": "settings?tab=projects",
        "members": "settings?tab=members",
        "keys": "settings?tab=keys",
        "audit": "settings?tab=audit",
        "me": "settings?tab=me",
    }


def log_in(browser: Any, site: Site) -> Any:
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.link)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/o/default/**")
    state = context.storage_state()
    context.close()
    return state


def shoot(
    browser: Any, site: Site, state: Any, pages: dict[str, str], folder: Path, only: str | None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for size, (width, height) in SIZES.items():
        for theme in ("light", "dark"):
            context = browser.new_context(
                storage_state=state,
                color_scheme=theme,
                viewport={"width": width, "height": height},
                device_scale_factor=1 if size == "wide" else 2,
            )
            page = context.new_page()
            for name, path in pages.items():
                if only is None or name in only.split(","):
                    page.goto(f"{site.address}{BASE}/{path}")
                    page.locator("main h1").first.wait_for()
                    page.wait_for_timeout(900)
                    page.screenshot(path=folder / f"{name}-{size}-{theme}.png")
            context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=25, help="how long the demo works first")
    parser.add_argument("--only", help="these pages alone: names with commas")
    parser.add_argument("--readme", action="store_true", help="renew the pictures of the README")
    chosen = parser.parse_args()
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        with running("") as site:
            state = log_in(browser, site)
            pages = fill(site, chosen.seconds)
            shoot(browser, site, state, pages, PICTURES / "full", chosen.only)
            if chosen.readme:
                for name, theme in (
                    ("overview", "light"),
                    ("job-waiting", "light"),
                    ("jobs", "dark"),
                ):
                    picture = PICTURES / "full" / f"{name}-wide-{theme}.png"
                    (README / f"dashboard-{name}.png").write_bytes(picture.read_bytes())
        if chosen.only is None:
            with running("tests.e2e.nothing:forge") as site:
                state = log_in(browser, site)
                places = ("", "queues", "jobs", "schedules", "alerts", "circuits", "workers")
                places += ("assignments", "scaling", "failures", "webhooks")
                empty = {name or "first-run": name for name in places}
                shoot(browser, site, state, empty, PICTURES / "empty", None)
        browser.close()
    print(f"pictures are in {PICTURES}")


if __name__ == "__main__":
    main()
