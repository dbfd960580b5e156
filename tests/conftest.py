import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from taskforge.testing.postgres import LocalServer, make_directory

TURNS = 3
ON_BOTH_STORES = {
    "test_audit",
    "test_bad_tokens",
    "test_canaries",
    "test_in_doubt",
    "test_isolation",
    "test_job_fields",
    "test_permissions",
    "test_quotas",
}
# How long an example takes says how busy the machine is.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


@pytest.fixture
def server_directory() -> Iterator[Path]:
    """A folder for a private server's data: pytest's own temporary folders are closed to the
    server's user."""
    directory = make_directory()
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[LocalServer]:
    """One server per test process, about a second to start; a test that stops or kills a server
    starts its own.

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
    """Tell a figure that a test measured: it is shown at the end of the run, also when tests run in
    several processes."""
    return lambda text: record_property("figure", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [
        report
        for kind in ("passed", "failed")
        for report in terminalreporter.stats.get(kind, [])
        if report.when == "call"
    ]
    figures = [
        value for report in reports for key, value in report.user_properties if key == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for text in figures:
            terminalreporter.write_line(text)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:  # type: ignore[misc]
    """In CI a test that is left out fails: what nobody ran proves nothing."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was left out, which CI does not allow: {why}"
    return report


# --- Rows that take turns ---


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-row", action="store_true", help="run all of the tests that take turns"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Slow rows of the quality table take turns, by the number of commits: of each its form on one
    store runs now, that on the next one after the next commit. Whoever names tests or files gets
    all of them."""
    named = config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.getoption(
        "keyword"
    )
    turn = None if named or config.getoption("every_row") else _commits()
    if turn is None:
        return
    forms: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("rotates") is not None:
            forms.setdefault(item.nodeid.partition("[")[0], []).append(item)
    later = {
        item
        for row, name in enumerate(sorted(forms))
        for column, item in enumerate(sorted(forms[name], key=lambda item: item.nodeid))
        if (row + column + turn) % TURNS
    } | _of_the_other_store(items, turn)
    if later:
        config.hook.pytest_deselected(items=list(later))
        items[:] = [item for item in items if item not in later]


def _of_the_other_store(items: list[pytest.Item], turn: int) -> set[pytest.Item]:
    """The REST API is the same before both stores, which have tests of their own: each of its tests
    runs before one of them, by turns, but for those that keep strangers out."""
    pairs: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        file = Path(item.nodeid.partition("::")[0])
        if file.parent.name == "api" and file.stem not in ON_BOTH_STORES:
            for store in ("sqlite", "postgres"):
                name = item.nodeid.replace(f"[{store}", "[*")
                if name != item.nodeid and item.get_closest_marker("rotates") is None:
                    pairs.setdefault(name, {})[store] = item
    return {
        forms[("sqlite", "postgres")[(row + turn) % 2]]
        for row, (_, forms) in enumerate(sorted(pairs.items()))
        if len(forms) == 2
    }


def _commits() -> int | None:
    try:
        made = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None  # not a clone: everything runs
    return int(made.stdout)
