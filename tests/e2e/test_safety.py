"""What others wrote is text wherever it shows, and the first page is small."""

import gzip
import re
from typing import Any

from taskforge.api.dashboard.files import ASSETS, BUILT
from tests.e2e.conftest import Site, Watch

HOSTILE = """</script><img src=x onerror="window.broken=1"><svg onload="window.broken=2">"""
MOST_BYTES = 250 * 1024


def test_hostile_names_payloads_and_errors_run_nothing(page: Any, site: Site, watch: Watch) -> None:
    watch.expect(404)  # there is no queue of such a name to list
    name = "<img src=x onerror=window.broken=3>"
    site.api.post("/queues", json={"name": "h", "description": HOSTILE})
    body = {"queue": "h", "job_type": name, "payload": {HOSTILE: HOSTILE}, "tags": [HOSTILE[:60]]}
    answer = site.api.post("/jobs", json=body | {"delay_seconds": 900})
    if answer.status_code == 422:  # names have rules of their own
        answer = site.api.post(
            "/jobs", json=body | {"job_type": "h", "tags": [], "delay_seconds": 900}
        )
    job = answer.json()["id"]
    base = f"{site.address}/o/default/p/default"
    for path in ("", "/queues", "/jobs", f"/jobs/{job}", f"/jobs?tag={HOSTILE}&queue={HOSTILE}"):
        page.goto(base + path)
        page.get_by_role("heading", level=1).wait_for()
        assert page.evaluate("window.broken") is None, path
    page.goto(f"{base}/jobs/{job}")
    page.get_by_text("onerror").first.wait_for()
    assert page.locator("main img").count() == 0


def test_the_first_page_is_small(figure: Any) -> None:
    index = (BUILT / "index.html").read_text()
    names = set(re.findall(rf"{ASSETS}/([\w.-]+)", index))
    sizes = {name: len(gzip.compress((BUILT / ASSETS / name).read_bytes(), 9)) for name in names}
    figure(f"dashboard: {sum(sizes.values()) / 1024:.0f} KiB gzip before the first page")
    assert sum(sizes.values()) <= MOST_BYTES, sizes
