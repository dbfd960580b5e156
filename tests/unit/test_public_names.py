"""What applications may import. A name that is added or taken away is a change for users: it stands
in the table below, and in CHANGELOG.md."""

import ast
import importlib
from pathlib import Path

import pytest

import taskforge

PUBLIC = {
    "taskforge": """
        Cancel Conflict Context CustomWorker Fail IncomingJob Invalid Job JobCancelled
        JobDeadLettered JobFailed JobHandle NotFound Priority RemoteError Retry Skip Snooze
        StoreUnavailable TaskForge TaskForgeError WorkerManager __version__ configure_logging
        current_context verify_webhook
    """,
    "taskforge.pool": """
        Adaptive Dropped FixedRate Handle LeakyBucket LimiterFull PoolClosed PoolFull PoolStats
        RateLimiter RemoteError Results RetryPolicy TokenBucket WorkerDied WorkerPool WorkerStats
    """,
    "taskforge.testing": "EnqueuedJob Sandbox",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_offers_what_it_promises_and_no_more(module: str) -> None:
    offered = importlib.import_module(module)
    assert sorted(offered.__all__) == sorted(PUBLIC[module].split())
    assert all(getattr(offered, name) is not None for name in offered.__all__)


def test_what_is_loaded_when_asked_for_is_what_type_checkers_are_told_of() -> None:
    """`taskforge` names each thing three times, so that importing it stays quick."""
    source = ast.parse(Path(taskforge.__file__).read_text(encoding="utf-8"))
    [told] = [node for node in source.body if isinstance(node, ast.If)]
    places = {
        alias.name: node.module
        for node in told.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert places == taskforge._WHERE
    assert {*places, "__version__"} == set(taskforge.__all__)


def test_what_is_not_offered_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        taskforge.Nothing  # noqa: B018


def test_a_shell_completes_what_is_offered() -> None:
    assert dir(taskforge) == sorted(taskforge.__all__)
