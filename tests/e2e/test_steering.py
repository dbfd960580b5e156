"""Steering workers and schedules: a weight, a drain, a schedule that runs now."""

import re
from typing import Any

from tests.e2e.conftest import Site, Watch


def at(page: Any, site: Site, path: str) -> Any:
    page.goto(f"{site.address}/o/default/p/default/{path}")
    return page


def the_worker(site: Site) -> dict[str, Any]:
    workers = site.api.get("/workers").json()["items"]
    return next(one for one in workers if one["status"] != "offline")


def test_a_weight_is_set_in_the_matrix_and_taken_away(page: Any, site: Site) -> None:
    worker = the_worker(site)
    at(page, site, "assignments")
    cell = page.get_by_label(f"Weight of {worker['name']} for held")
    cell.fill("50")
    cell.press("Enter")
    page.get_by_role("dialog").get_by_text("alone").wait_for()
    page.get_by_role("button", name="Assign", exact=True).click()
    page.get_by_text("with weight 50").wait_for()
    cell.fill("80")
    cell.press("Enter")
    page.get_by_text("with weight 80").wait_for()
    made = site.api.get(f"/queues/held/assignments/{worker['id']}").json()
    assert made["weight"] == 80
    cell.press("Delete")
    page.get_by_text("is no longer assigned to held").wait_for()


def test_a_worker_is_drained_and_let_work_again(page: Any, site: Site) -> None:
    worker = the_worker(site)
    at(page, site, "workers")
    page.get_by_role("link", name=worker["name"]).click()
    page.get_by_role("button", name="Drain").click()
    page.get_by_text("It takes no more jobs.").wait_for()
    assert the_worker(site)["drain_mode"] is True
    page.get_by_role("button", name="Let it work").click()
    page.get_by_role("button", name="Drain").wait_for()
    assert the_worker(site)["drain_mode"] is False


def test_a_schedule_is_made_and_runs_now(page: Any, site: Site) -> None:
    at(page, site, "schedules")
    page.get_by_role("link", name="New schedule").click()
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_label(re.compile("^Cron")).fill("30 2 * * *")
    page.get_by_text(re.compile("Next: .*02:30:00")).wait_for()
    page.get_by_label("Type of its jobs").fill("greet")
    page.get_by_role("textbox", name=re.compile("^Payload")).fill('{"name": "the night"}')
    page.get_by_role("button", name="Make it").click()
    page.get_by_role("heading", name="nightly").wait_for()
    page.get_by_role("button", name="Run now").click()
    page.locator(".verdict-line", has_text="succeeded").wait_for()
    page.get_by_text("hello the night", exact=True).first.wait_for()


def test_the_cluster_has_a_leader(page: Any, site: Site) -> None:
    at(page, site, "cluster")
    page.get_by_text("Every node is heard of, and one of them leads.").wait_for()


def test_an_alert_fires_on_the_page_and_is_silenced(page: Any, site: Site, watch: Watch) -> None:
    watch.expect(422)
    site.api.post("/queues/held/pause")
    for _ in range(2):
        site.api.post("/jobs", json={"queue": "held", "job_type": "nobody"}).raise_for_status()
    at(page, site, "alerts")
    page.get_by_role("button", name="New rule").click()
    page.get_by_label("Name", exact=True).fill("held piles up")
    page.get_by_label(re.compile("^Queue")).fill("held")
    page.get_by_label(re.compile("^Fires at")).fill("-1")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("✕").wait_for()
    page.get_by_label(re.compile("^Fires at")).fill("2")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("2 jobs are pending (queue held); the threshold is 2").first.wait_for()
    page.get_by_role("heading", name="What became of them").wait_for()
    page.get_by_role("button", name="Silence 1 h").click()
    page.get_by_text("silenced until").wait_for()
    [rule] = site.api.get("/alerts").json()["items"]
    assert (rule["is_firing"], rule["silenced_until"] is None) == (True, False)
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_text("There is no alert rule yet.").wait_for()
    jobs = [one["id"] for one in site.api.get("/jobs", params={"queue": "held"}).json()["items"]]
    for job in jobs:
        site.api.post(f"/jobs/{job}/cancel")
    site.api.post("/queues/held/resume")


def test_an_open_circuit_is_named_on_the_overview_and_closed_there(page: Any, site: Site) -> None:
    site.api.post("/dependencies", json={"name": "stripe"}).raise_for_status()
    site.api.post("/circuits/open", json={"dependency": "stripe"}).raise_for_status()
    site.enqueue("greet", "default", name="somebody")
    at(page, site, "")
    page.get_by_text("hands nothing out").wait_for()
    page.get_by_role("button", name="Close it").click()
    page.get_by_text("hands nothing out").wait_for(state="detached")
    assert site.api.get("/circuits", params={"mode": "open"}).json()["items"] == []
    site.api.delete("/dependencies/stripe").raise_for_status()


def test_a_dependency_is_held_back_and_let_through_on_the_page_of_circuits(
    page: Any, site: Site, watch: Watch
) -> None:
    watch.expect(404)
    at(page, site, "circuits")
    page.get_by_text("There is no circuit yet.").wait_for()
    page.get_by_role("button", name="Hold back a dependency").click()
    page.get_by_label(re.compile("^Dependency")).fill("the bank")
    page.get_by_role("button", name="Hold back its jobs").click()
    page.get_by_text("hands nothing out").wait_for()
    [circuit] = site.api.get("/circuits", params={"mode": "open"}).json()["items"]
    assert (circuit["dependency"], circuit["is_forced"]) == ("the bank", True)
    page.get_by_role("button", name="Close it").click()
    page.get_by_text("lets all through").wait_for()
    assert site.api.get("/circuits", params={"mode": "open"}).json()["items"] == []
    site.api.delete("/dependencies/the bank").raise_for_status()


def test_a_queue_gets_a_scaling_policy_that_says_what_it_would_do(
    page: Any, site: Site, watch: Watch
) -> None:
    watch.expect(422)
    at(page, site, "scaling")
    page.get_by_text("No queue has a scaling policy.").wait_for()
    page.get_by_role("button", name="New policy").click()
    page.get_by_label("Queue", exact=True).select_option(label="held")
    page.get_by_label(re.compile("^At most")).fill("-2")
    page.get_by_role("button", name="Make the policy").click()
    page.locator("#fault-max_workers", has_text="✕").wait_for()
    page.get_by_label(re.compile("^At least")).fill("3")
    page.get_by_label(re.compile("^At most")).fill("5")
    page.get_by_role("button", name="Make the policy").click()
    page.locator(".verdict-line", has_text="wants").wait_for()
    assert site.api.get("/queues/held/scaling").json()["min_workers"] == 3
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Take it away").click()
    page.get_by_text("No queue has a scaling policy.").wait_for()


def test_a_webhook_is_made_with_a_secret_shown_once_and_tells_what_was_answered(
    page: Any, site: Site, watch: Watch
) -> None:
    watch.expect(422)
    at(page, site, "webhooks")
    page.get_by_text("There is no webhook yet.").wait_for()
    page.get_by_role("button", name="New webhook").click()
    page.get_by_label("Name", exact=True).fill("ops-hook")
    page.get_by_label(re.compile("^Address")).fill("http://127.0.0.1/hook")
    page.get_by_role("button", name="Make it").click()
    page.locator("#fault-url", has_text="✕").wait_for()
    page.get_by_label(re.compile("^Address")).fill("https://nobody.invalid/hook")
    page.get_by_role("button", name="Make it").click()
    page.get_by_text("whsec_").wait_for()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("heading", name="ops-hook").wait_for()
    assert page.get_by_text("whsec_").count() == 0
    page.get_by_role("button", name="Ping").click()
    page.get_by_role("button", name="ping", exact=True).click()
    page.locator(".attempts li", has_text="nobody.invalid").first.wait_for()
    page.get_by_role("button", name="Send again").click()
    page.get_by_text("it is sent again").wait_for()
    page.get_by_role("button", name="Rotate…").click()
    page.get_by_role("button", name="Rotate it").click()
    page.get_by_text("whsec_").wait_for()
    page.get_by_role("button", name="I have it").click()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("button", name="Delete it").click()
    page.get_by_text("There is no webhook yet.").wait_for()
