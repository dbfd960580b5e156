"""A job from the form to its end, as someone who has nothing but the dashboard sees it."""

import re
from pathlib import Path
from typing import Any

from tests.e2e.conftest import Site, Watch


def at(page: Any, site: Site, path: str) -> Any:
    page.goto(f"{site.address}/o/default/p/default/{path}")
    return page


def test_a_job_is_enqueued_runs_and_shows_what_came_of_it_to_the_last_digit(
    page: Any, site: Site
) -> None:
    at(page, site, "jobs")
    page.get_by_role("link", name="Enqueue", exact=True).click()
    page.get_by_label("Queue", exact=True).fill("default")
    page.get_by_label("Type", exact=True).fill("greet")
    page.get_by_label(re.compile("^Payload")).fill('{"name": "you"')
    page.get_by_role("button", name="Enqueue").click()
    page.get_by_text("The payload is no JSON").wait_for()
    page.get_by_label(re.compile("^Payload")).fill('{"name": "you"}')
    page.get_by_role("button", name="Enqueue").click()
    page.locator(".verdict-line", has_text="succeeded").wait_for()
    page.get_by_text("9007199254740993").wait_for()
    page.get_by_text("hello you", exact=True).first.wait_for()


def test_logs_come_while_it_runs_and_it_can_be_stopped(
    page: Any, site: Site, tmp_path: Path
) -> None:
    job = site.enqueue("talk", "default", until=str(tmp_path / "enough"))
    at(page, site, f"jobs/{job}")
    page.get_by_text("line 3 of many").wait_for()
    page.get_by_text("line 12 of many").wait_for()
    page.get_by_role("button", name="Cancel…").click()
    page.get_by_role("button", name="Ask it to stop").click()
    page.locator(".verdict-line", has_text="cancelled").wait_for()
    assert site.api.get(f"/jobs/{job}").json()["status"] == "cancelled"


def test_a_paused_queue_is_found_through_the_explanation_and_resumed(page: Any, site: Site) -> None:
    assert site.api.post("/queues/held/pause").status_code == 200
    job = site.enqueue("wait_for_it", "held")
    at(page, site, f"jobs/{job}")
    panel = page.get_by_label("Why is it not running?")
    panel.get_by_text("queue 'held' is paused").wait_for()
    panel.get_by_role("button", name="Resume held").click()
    page.locator(".verdict-line", has_text="succeeded").wait_for()


def test_a_dead_letter_is_sent_back(page: Any, site: Site, tmp_path: Path) -> None:
    mended = tmp_path / "mended"
    job = site.enqueue("charge", "billing", order=7, mended=str(mended))
    at(page, site, f"jobs/{job}")
    page.get_by_text("the card of order 7 was declined").first.wait_for()
    page.get_by_role("button", name="Redrive").wait_for()
    mended.touch()
    at(page, site, "queues")
    page.get_by_role("link", name="billing-dead").click()
    page.get_by_role("link", name="Dead letters").click()
    page.locator("tr", has_text=job[-12:-6]).get_by_role("button", name="Redrive").click()
    at(page, site, f"jobs/{job}")
    page.locator(".verdict-line", has_text="succeeded").wait_for()


def test_the_list_filters_by_its_address_and_changes_all_that_match_after_a_count(
    page: Any, site: Site
) -> None:
    assert site.api.post("/queues", json={"name": "later"}).status_code in (201, 409)
    jobs = [{"queue": "later", "job_type": "x", "delay_seconds": 900} for _ in range(3)]
    assert site.api.post("/jobs/bulk", json=jobs).status_code == 200
    at(page, site, "jobs?queue=later&status=scheduled")
    page.locator("table.jobs tbody tr").nth(2).wait_for()
    assert page.locator("table.jobs tbody tr").count() == 3
    page.get_by_role("button", name="Cancel all…").click()
    page.get_by_role("button", name="Cancel 3").click()
    page.get_by_text("3 jobs changed").wait_for()
    page.get_by_text("No job matches.").wait_for()


def test_a_setting_that_the_server_refuses_has_its_words_beside_the_field(
    page: Any, site: Site, watch: Watch
) -> None:
    watch.expect(422)
    at(page, site, "queues")
    page.get_by_role("link", name="default", exact=True).last.click()
    page.locator(".tabs").get_by_role("link", name="Settings").click()
    page.get_by_label(re.compile("^Timeout")).fill("0")
    page.get_by_role("button", name="Save").click()
    page.locator("#fault-timeout_seconds", has_text="0.1").wait_for()
    page.get_by_label(re.compile("^Timeout")).fill("120")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("default is saved").wait_for()
    assert site.api.get("/queues/default").json()["settings"]["timeout_seconds"] == 120


def test_keys_lead_to_pages_and_an_id_to_its_job(page: Any, site: Site) -> None:
    job = site.enqueue("greet", "default", name="keys")
    page.get_by_role("heading", level=1).wait_for()
    page.keyboard.press("g")
    page.keyboard.press("q")
    page.wait_for_url(re.compile("/queues$"))
    page.keyboard.press("/")
    page.keyboard.type(job)
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(job))
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keys").wait_for()
    page.keyboard.press("Escape")
    at(page, site, "jobs?job_type=greet")
    page.locator("table.jobs tbody tr").first.wait_for()
    page.keyboard.press("j")
    page.locator("tr.here").wait_for()
    page.keyboard.press("x")
    page.get_by_text("1 job selected").wait_for()
    page.keyboard.press("Enter")
    page.locator(".verdict-line").wait_for()


def test_the_palette_finds_pages_things_and_what_may_be_done(page: Any, site: Site) -> None:
    page.get_by_role("heading", level=1).wait_for()
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("assig")
    page.get_by_role("option", name="Assignments").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/assignments$"))
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("pause billing-d")
    page.get_by_role("option", name="Pause billing-dead").wait_for()
    page.keyboard.press("Enter")
    page.get_by_text("billing-dead is paused").wait_for()
    assert site.api.get("/queues/billing-dead").json()["is_active"] is False
    page.get_by_role("button", name="Undo").click()
    page.keyboard.press("Control+k")
    page.get_by_role("option", name="Pause billing-dead").wait_for()


def test_failures_that_are_alike_are_one_group_that_runs_again_after_a_count(
    page: Any, site: Site, tmp_path: Path
) -> None:
    mended = tmp_path / "mended"
    jobs = [site.enqueue("charge", "billing", order=n, mended=str(mended)) for n in (1201, 1202)]
    at(page, site, "failures")
    page.get_by_role("link", name="charge PermissionError").click()
    page.get_by_text("the card of order", exact=False).first.wait_for()
    page.locator("dd", has_text="2").first.wait_for()
    mended.touch()
    page.get_by_role("button", name="Retry all…").click()
    page.get_by_role("button", name=re.compile(r"^Retry \d")).click()
    page.get_by_text("sent to run again").wait_for()
    for job in jobs:
        at(page, site, f"jobs/{job}")
        page.locator(".verdict-line", has_text="succeeded").wait_for()
