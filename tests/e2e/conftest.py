"""A real server with a worker, and Debian's chromium before it. Whatever a page logs as an error,
asks of another origin or throws fails the test that it happened in."""

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskforge.api.dashboard.files import is_built

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 15_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    missing = [
        reason
        for reason, is_there in (
            ("chromium is not installed", CHROMIUM is not None),
            ("the dashboard is not built: make dashboard", is_built()),
        )
        if not is_there
    ]
    for item in items:
        if missing and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="; ".join(missing)))


class Site:
    """A server with a worker in a process of its own, on a store of its own."""

    def __init__(self, folder: Path, app: str = "tests.e2e.app:forge") -> None:
        self.folder = folder
        self.state = folder / "state.json"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"sqlite:///{folder / 'site.db'}"
        self.log = (folder / "site.log").open("w+")
        command = [sys.executable, "-m", "taskforge.cli", "up"]
        command += [app] if app else []
        self.process = subprocess.Popen(
            [*command, "--url", self.url, "--port", str(port), "--slots", "4"],
            cwd=Path(__file__).parents[2],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        self.address = f"http://127.0.0.1:{port}"
        self.link = self._told(r"log in\s+(\S+)")
        self.key = self._told(r"API key\s+(\S+)")
        self.api = httpx.Client(
            base_url=f"{self.address}/api/v1",
            headers={"authorization": f"Bearer {self.key}"},
            timeout=20,
            verify=False,
        )

    def _told(self, pattern: str) -> str:
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            found = re.search(pattern, Path(self.log.name).read_text())
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(f"the server told no {pattern}: {Path(self.log.name).read_text()}")

    def enqueue(self, job_type: str, queue: str, **payload: object) -> str:
        body = {"queue": queue, "job_type": job_type, "payload": payload}
        answer = self.api.post("/jobs", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def close(self) -> None:
        self.api.close()
        self.process.terminate()
        self.process.wait(20)
        self.log.close()


class Watch:
    """Hears what a page complains of."""

    def __init__(self, site: Site) -> None:
        self.origin = site.address
        self.complaints: list[str] = []
        self.refusals: set[int] = set()

    def expect(self, *statuses: int) -> None:
        """Answers that the test means to get; a browser's console has them as errors, too."""
        self.refusals |= set(statuses)

    def unexpected(self) -> list[str]:
        known = [f"status of {status} " for status in self.refusals]
        return [one for one in self.complaints if not any(each in one for each in known)]

    def listen(self, page: Any) -> None:
        page.on(
            "console",
            lambda one: (
                self.complaints.append(f"console: {one.text}")
                if one.type in ("error", "warning")
                else None
            ),
        )
        page.on("pageerror", lambda one: self.complaints.append(f"thrown: {one}"))
        page.on(
            "request",
            lambda one: (
                self.complaints.append(f"asked elsewhere: {one.url}")
                if not one.url.startswith((self.origin, "data:", "blob:"))
                else None
            ),
        )


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Ends with its module: while it is there an event loop runs in this thread, and tests of other
    folders start their own."""
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def session(site: Site, browser: Any) -> str:
    """The cookies of someone who logged in by the link of the first start, which works once."""
    if site.state.exists():
        return str(site.state)
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.link)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(re.compile(r"/o/default/p/default"))
    context.storage_state(path=site.state)
    context.close()
    return str(site.state)


@pytest.fixture
def watch(site: Site) -> Watch:
    return Watch(site)


@pytest.fixture
def open_page(site: Site, browser: Any, watch: Watch) -> Iterator[Callable[..., Any]]:
    """Opens a place of the dashboard in a browser of its own; what pages complain of fails the
    test."""
    contexts = []

    def open_at(path: str = "", state: str | None = None, script: str = "", **options: Any) -> Any:
        """`script` runs before each of its pages."""
        context = browser.new_context(storage_state=state, **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.add_init_script(script)
        watch.listen(page)
        page.goto(f"{site.address}{path}")
        return page

    yield open_at
    for one in contexts:
        one.close()
    assert watch.unexpected() == []


@pytest.fixture
def page(open_page: Callable[..., Any], session: str) -> Any:
    """The overview, logged in as the owner."""
    return open_page("/", session)


@pytest.fixture
def place() -> str:
    return "/o/default/p/default"
