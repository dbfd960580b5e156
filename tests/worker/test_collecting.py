"""A worker's process looks for garbage less often, unless its app has a figure of its own."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskforge import TaskForge
from taskforge.worker import garbage


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_nobody_has_set_is_raised() -> None:
    gc.set_threshold(700, 10, 10)
    garbage.collect_less_often()
    assert gc.get_threshold() == (garbage.NEW_OBJECTS, 10, 10)
    assert gc.get_freeze_count() > 0


def test_what_the_app_has_set_stays() -> None:
    gc.set_threshold(321, 5, 5)
    garbage.collect_less_often()
    assert gc.get_threshold() == (321, 5, 5)


def test_what_this_interpreter_begins_with_is_known() -> None:
    command = [sys.executable, "-c", "import gc; print(gc.get_threshold())"]
    begun_with = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert begun_with in {str(figures) for figures in garbage.INITIAL}


async def test_an_application_that_works_by_itself_gets_it_too(tmp_path: Path) -> None:
    gc.set_threshold(700, 10, 10)
    forge = TaskForge(f"sqlite:///{tmp_path / 'jobs.db'}")
    working = asyncio.create_task(forge.work())
    async with asyncio.timeout(20):
        while gc.get_threshold()[0] != garbage.NEW_OBJECTS:
            await asyncio.sleep(0.01)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await forge.close()
