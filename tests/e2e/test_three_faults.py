"""Three things are wrong: a queue is paused, no worker can do what a job requires, and what jobs
depend on fails. With nothing but the dashboard each cause is found in three clicks."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import Site

MOST_CLICKS = 3


class Hand:
    """Counts what it presses."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.clicks = 0

    def press(self, found: Any) -> None:
        found.click()
        self.clicks += 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of its own: what is wrong here would be in the way of the other tests."""
    made = Site(tmp_path_factory.mktemp("faulty"), "tests.e2e.faulty:forge")
    made.api.post("/queues/held/pause").raise_for_status()
    made.enqueue("wait_for_it", "held")
    gpu = {"queue": "default", "job_type": "render", "requires": {"gpu": True}}
    made.api.post("/jobs", json=gpu).raise_for_status()
    bank = {"name": "the bank", "circuit_breaker": {"least_calls": 8}}
    made.api.post("/dependencies", json=bank).raise_for_status()
    for number in range(20):
        made.enqueue("transfer", "default", number=number)
    yield made
    made.close()


@pytest.fixture
def hand(page: Any, site: Site, place: str) -> Hand:
    """On the overview, where one begins."""
    page.goto(f"{site.address}{place}")
    page.locator("main .verdict", has_text="need").wait_for()
    return Hand(page)


def test_the_paused_queue_is_found(hand: Hand) -> None:
    line = hand.page.locator(".causes li", has_text="held is paused")
    line.wait_for()
    hand.press(line.get_by_role("button", name="Resume"))
    hand.page.get_by_text("held is resumed").wait_for()
    hand.page.get_by_role("button", name="Undo").click()
    assert hand.clicks <= MOST_CLICKS


def test_what_no_worker_can_do_is_found(hand: Hand) -> None:
    page = hand.page
    hand.press(page.locator(".figures div", has_text="waiting").get_by_role("link"))
    row = page.locator("table.jobs tr", has_text="render")
    hand.press(row.get_by_role("link").last)
    page.get_by_label("Why is it not running?").get_by_text("gpu").first.wait_for()
    assert hand.clicks <= MOST_CLICKS


def test_what_fails_is_found(hand: Hand) -> None:
    page = hand.page
    line = page.locator(".causes li", has_text="the bank")
    line.get_by_text("transfer").wait_for()
    hand.press(line.get_by_role("link", name="Circuits"))
    page.locator("table tr", has_text="the bank").get_by_text("hands nothing out").wait_for()
    assert hand.clicks <= MOST_CLICKS
