import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskforge.storage.postgres.server import LocalServer, make_directory


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """A folder for a private server's data: pytest's own temporary folders are closed to the server's user."""
    directory = make_directory()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalServer]:
    """One server per test process, about a second to start; a test that stops or kills a server starts its own.

    This one is never killed, so it need not wait for its disk.
    """
    directory = make_directory()
    settings = {"shared_buffers": "256MB", "max_connections": 100, "fsync": "off"}
    with LocalServer.start(directory, settings=settings) as server:
        yield server
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_url(postgres_server: LocalServer) -> str:
    return postgres_server.url()


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Tell a figure that a test measured: it is shown at the end of the run, also when tests run in several processes."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, []) if report.when == "call"]
    figures = [value for report in reports for key, value in report.user_properties if key == "figure"]
    if figures:
        terminalreporter.section("figures")
        for text in figures:
            terminalreporter.write_line(text)
