"""The pytest plugin. It is loaded in every test run of whoever has TaskForge installed, so it
imports nothing until it is used."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge
    from taskforge.testing.sandbox import Sandbox


@pytest.fixture
def taskforge_sandbox() -> Iterator[Callable[..., "Sandbox"]]:
    """Call it with the app to get a `Sandbox` that lasts until the test ends; works in async tests
    and in plain ones."""
    from taskforge.testing.sandbox import Sandbox  # noqa: PLC0415

    with ExitStack() as stack:

        def enter(forge: "TaskForge", **options: Any) -> "Sandbox":
            return stack.enter_context(Sandbox(forge, **options))

        yield enter
