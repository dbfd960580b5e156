"""Getting in: by a one-time link, by a password, and not at all; and what each role may press."""

from typing import Any
from uuid import uuid4

from tests.e2e.conftest import Site, Watch

PASSWORD = "correct horse battery staple"


def invite(site: Site, role: str) -> str:
    email = f"{uuid4().hex[:8]}@example.com"
    token = site.api.post("/invitations", json={"email": email, "role": role}).json()["token"]
    body = {"token": token, "name": "Someone", "password": PASSWORD}
    assert site.api.post("/invitations/accept", json=body).status_code == 201
    return email


def log_in(page: Any, email: str) -> None:
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("navigation", name="Pages", exact=True).wait_for()


def test_a_link_leads_in_and_its_token_stays_in_no_address(page: Any) -> None:
    page.get_by_role("heading", level=1).wait_for()
    assert "token" not in page.url
    page.locator(".live.on").wait_for()


def test_a_password_leads_in_and_a_wrong_one_does_not(
    open_page: Any, site: Site, watch: Watch
) -> None:
    watch.expect(401)
    email = invite(site, "operator")
    page = open_page("/")
    page.get_by_label("Email").fill(email)
    page.get_by_label("Password").fill("something else")
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("alert").wait_for()
    log_in(page, email)
    page.locator(".menu summary").click()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Password").wait_for()


def test_a_viewer_sees_no_button_that_would_fail(
    open_page: Any, site: Site, place: str, watch: Watch
) -> None:
    watch.expect(401)
    job = site.enqueue("greet", "default", name="viewer")
    page = open_page("/")
    log_in(page, invite(site, "viewer"))
    for path, words in (
        ("queues", ["New queue"]),
        ("jobs", ["Enqueue", "Retry all…"]),
        (f"jobs/{job}", ["Retry", "Cancel", "Clone", "Delete…", "Edit"]),
    ):
        page.goto(f"{site.address}{place}/{path}")
        page.get_by_role("heading", level=1).wait_for()
        for word in words:
            assert page.get_by_role("button", name=word, exact=True).count() == 0, (path, word)
            assert page.get_by_role("link", name=word, exact=True).count() == 0, (path, word)
    page.get_by_text("Hidden: it needs the right").first.wait_for()
    assert "said" not in page.locator("main").inner_text()


def test_the_reference_is_searched_and_its_samples_name_this_server(
    open_page: Any, site: Site
) -> None:
    page = open_page("/api/v1/docs", viewport={"width": 1280, "height": 800})
    page.locator("figure", has_text=f"SERVER={site.address}").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("drain worker")
    rows = page.locator(".tree li:visible")
    rows.first.wait_for()
    assert 0 < rows.count() < 10
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Copy: First request").click()
    page.get_by_text("Copied").wait_for()
    wide = """() => [...document.querySelectorAll(".scroll")]
        .filter((one) => one.scrollWidth > one.clientWidth)
        .map((one) => one.closest("article")?.id)"""
    assert page.evaluate(wide) == []
