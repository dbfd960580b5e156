"""What holds on every page: hostile text runs nothing, axe finds nothing serious, and nothing runs
over the edge of a laptop or a phone."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Site, Watch

AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = """</script><img src=x onerror="window.broken=1"><svg onload="window.broken=2">"""
SERIOUS = """async () => {
    const found = await axe.run(document, { resultTypes: ["violations"] });
    return found.violations
        .filter((one) => ["serious", "critical"].includes(one.impact))
        .map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(", ")}`);
}"""
WIDE, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def places(site: Site) -> Iterator[dict[str, str]]:
    """Every page, with something on it that somebody chose to name badly."""
    api = site.api
    queue = api.patch("/queues/hostile", json={"description": HOSTILE}).json()["id"]
    job = api.post(
        "/jobs",
        json={"queue": "hostile", "job_type": "curse", "payload": {"words": HOSTILE}}
        | {"tags": ["plain"]},
    ).json()["id"]
    waiting = api.post(
        "/jobs", json={"queue": "hostile", "job_type": "x", "payload": {HOSTILE: HOSTILE}}
    ).json()["id"]
    every = {"every_seconds": 3_600, "payload": {HOSTILE: HOSTILE}, "description": HOSTILE}
    schedule = api.post(
        "/schedules", json={"name": "hostile", "queue": "hostile", "job_type": "x"} | every
    ).json()["id"]
    rule = api.post(
        "/alerts",
        json={"name": "hostile <svg onload=1>", "kind": "queue_size", "queue": "hostile"}
        | {"threshold": 1},
    ).json()["id"]
    api.post("/dependencies", json={"name": "hostile"}).raise_for_status()
    api.put("/queues/hostile/scaling", json={"max_workers": 3}).raise_for_status()
    webhook = {
        "name": "hostile",
        "url": "https://hooks.example.com/?svg=onload",
        "kinds": ["alert"],
    }
    hook = api.post("/webhooks", json=webhook | {"description": HOSTILE}).json()["webhook"]["id"]
    api.post(f"/webhooks/{hook}/ping").raise_for_status()
    until = time.monotonic() + 30
    while not (groups := api.get("/failures", params={"job_type": "curse"}).json()["items"]):
        assert time.monotonic() < until  # they are up to date within some seconds
        time.sleep(0.2)
    worker = api.get("/workers").json()["items"][0]["id"]
    yield {
        "overview": "",
        "queues": "queues",
        "queue": f"queues/{queue}",
        "queue settings": f"queues/{queue}?tab=settings",
        "who serves a queue": f"queues/{queue}?tab=served",
        "dead letters": f"queues/{queue}?tab=dead",
        "jobs": "jobs",
        "jobs of a tag": "jobs?tag=%3Cimg%20src%3Dx%20onerror%3D1%3E",
        "a job that fails": f"jobs/{job}",
        "a job that waits": f"jobs/{waiting}",
        "enqueue": f"enqueue?clone={job}",
        "failures": "failures",
        "a group of failures": f"failures/{groups[0]['id']}",
        "jobs that failed alike": f"jobs?failure_group={groups[0]['id']}",
        "webhooks": "webhooks",
        "a webhook": f"webhooks/{hook}",
        "schedules": "schedules",
        "a schedule": f"schedules/{schedule}",
        "a new schedule": "schedules/new",
        "scaling policies": "scaling",
        "a scaling policy": f"scaling/{queue}",
        "alerts": "alerts",
        "circuits": "circuits",
        "workers": "workers",
        "a worker": f"workers/{worker}",
        "assignments": "assignments",
        "cluster": "cluster",
        "projects": "settings?tab=projects",
        "members": "settings?tab=members",
        "keys": "settings?tab=keys",
        "audit": "settings?tab=audit",
        "me": "settings?tab=me",
    }
    api.delete(f"/schedules/{schedule}")
    api.delete(f"/alerts/{rule}")
    api.delete("/dependencies/hostile")
    api.delete("/queues/hostile/scaling")
    api.delete(f"/webhooks/{hook}")


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.rotates)])
@pytest.mark.timeout(240)
def test_pages_are_accessible_fit_and_run_nothing_that_others_wrote(
    theme: str, open_page: Any, session: str, site: Site, places: dict[str, str], place: str
) -> None:
    page = open_page("/", session, color_scheme=theme, viewport=WIDE)
    source = AXE.read_text()
    faults: dict[str, object] = {}
    for name, path in places.items():
        page.goto(f"{site.address}{place}/{path}")
        page.locator("main h1").first.wait_for()
        page.locator("[aria-busy=true]").first.wait_for(state="detached")
        page.evaluate(f"() => {{ {source}\n }}")
        found = page.evaluate(SERIOUS)
        for size in (PHONE, WIDE):
            page.set_viewport_size(size)
            over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if over > 0:
                found.append(f"{over} px too wide at {size['width']}")
        if page.evaluate("window.broken ?? null") is not None:
            found.append("ran what others wrote")
        if found:
            faults[name] = found
    assert faults == {}


def test_pages_of_a_viewer_ask_for_nothing_that_is_refused(
    open_page: Any, site: Site, places: dict[str, str], place: str, watch: Watch
) -> None:
    from tests.e2e.test_ways_in import invite, log_in

    watch.expect(401)
    page = open_page("/")
    log_in(page, invite(site, "viewer"))
    refused: list[str] = []
    page.on("response", lambda one: refused.append(one.url) if one.status == 403 else None)
    page.locator("main h1").first.wait_for()
    rail = page.get_by_role("navigation", name="Pages", exact=True)
    for name in rail.get_by_role("link").all_inner_texts():
        rail.get_by_role("link", name=name, exact=True).click()
        page.locator("main h1", has_text=name if name != "Overview" else "").first.wait_for()
        page.locator("[aria-busy=true]").first.wait_for(state="detached")
    for path in ("queue", "a job that fails", "a schedule", "a worker"):
        page.goto(f"{site.address}{place}/{places[path]}")
        page.locator("main h1").first.wait_for()
        page.locator("[aria-busy=true]").first.wait_for(state="detached")
    assert refused == []
