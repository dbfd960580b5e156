"""What it costs to look: the first page, ten thousand rows, an hour in front of it."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Site

ROWS = 10_000
MOST_FRAME_MS = 50.0
MOST_WORK_MS = 25.0  # of the page's thread, whoever else wants the processor
MOST_PAINT_MS = 1_000.0
MOST_GROWTH = 1.2
USEFUL = """new MutationObserver(() => {
    const verdict = document.querySelector("main .causes, main .verdict");
    if (verdict !== null) window.useful ??= performance.now();
}).observe(document, { childList: true, subtree: true });"""
# Scrolls by most of a screen in each frame until all rows are there, or so many frames are over.
SCROLL = """async ([rows, most, step]) => {
    const frames = [];
    const table = document.querySelector("table.jobs");
    const loaded = () => Number(table.getAttribute("aria-rowcount"));
    let before = await new Promise(requestAnimationFrame);
    while (frames.length < most) {
        scrollBy(0, step);
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - before);
        before = now;
        const end = document.documentElement.scrollHeight - innerHeight - scrollY < 5;
        if (step > 0 && end && loaded() >= rows) break;
    }
    frames.sort((a, b) => a - b);
    return { p95: frames[Math.floor(frames.length * 0.95)], frames: frames.length, rows: loaded(),
        shown: table.querySelectorAll("tbody tr").length };
}"""


@pytest.fixture(scope="module")
def deep(site: Site) -> str:
    """A queue with more jobs than a list keeps."""
    job = {"queue": "deep", "job_type": "x", "delay_seconds": 86_400}
    site.api.post("/queues", json={"name": "deep"}).raise_for_status()
    for _ in range(ROWS // 1_000 + 1):
        site.api.post("/jobs/bulk", json=[job] * 1_000).raise_for_status()
    return "deep"


@pytest.mark.timeout(180)
def test_ten_thousand_rows_scroll(
    open_page: Any, session: str, site: Site, deep: str, place: str, figure: Callable[[str], None]
) -> None:
    page = open_page(f"{place}/jobs?queue={deep}", session)
    page.locator("table.jobs tbody tr").nth(5).wait_for()
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked() -> float:
        found = tools.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in found if one["name"] == "TaskDuration") * 1000

    before = worked()
    seen = page.evaluate(SCROLL, [ROWS, 3_000, 600])
    work = (worked() - before) / seen["frames"]
    busy = os.getloadavg()[0] / (os.cpu_count() or 1)
    figure(
        f"dashboard: {seen['rows']:,} rows scroll with a p95 frame of {seen['p95']:.1f} ms, "
        f"{work:.1f} ms of work in a frame, {busy:.1f} wait for each processor "
        f"({seen['frames']} frames, {seen['shown']} rows in the page)"
    )
    assert seen["rows"] == ROWS
    assert seen["shown"] < 150
    assert work <= MOST_WORK_MS
    if busy <= 1.0:  # else frames are as late as the machine's other work makes them
        assert seen["p95"] <= MOST_FRAME_MS


def test_the_first_page_says_something_within_a_second(
    open_page: Any, session: str, place: str, figure: Callable[[str], None]
) -> None:
    """With nothing in the browser's cache; the best of three, as others use this machine too."""
    times = []
    for _ in range(3):
        page = open_page(place, session, USEFUL)
        page.locator("main .verdict").wait_for()
        times.append(page.evaluate("window.useful"))
        page.context.close()
    figure(f"dashboard: first useful paint after {min(times):.0f} ms (of {times})")
    assert min(times) < MOST_PAINT_MS


def heap_of(page: Any) -> int:
    session = page.context.new_cdp_session(page)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return int(used)


def look_around(page: Any, site: Site, rounds: int) -> None:
    """As somebody does who leaves it open: pages, and events that come in."""
    rail = page.get_by_role("navigation", name="Pages", exact=True)
    for number in range(rounds):
        for name in ("Queues", "Jobs", "Workers", "Overview"):
            rail.get_by_role("link", name=name, exact=True).click()
            page.locator("main h1").first.wait_for()
        for _ in range(5):
            site.enqueue("greet", "default", name=f"round {number}")
        page.wait_for_timeout(200)


@pytest.mark.parametrize(
    ("warm", "then"),
    [
        pytest.param(4.0, 6.0, id="seconds"),
        pytest.param(300.0, 3_300.0, id="an hour", marks=pytest.mark.long),
    ],
)
def test_an_open_page_does_not_grow(
    open_page: Any,
    session: str,
    site: Site,
    figure: Callable[[str], None],
    warm: float,
    then: float,
) -> None:
    page = open_page("/", session)
    page.locator("main h1").first.wait_for()
    sizes = []
    for seconds in (warm, then):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            look_around(page, site, 2)
        page.get_by_role("link", name="Overview", exact=True).first.click()
        page.wait_for_timeout(500)
        sizes.append(heap_of(page))
    before, after = sizes
    figure(
        f"dashboard: heap {before / 2**20:.1f} MiB after {warm:.0f} s, "
        f"{after / 2**20:.1f} MiB after {warm + then:.0f} s"
    )
    assert after <= MOST_GROWTH * before
