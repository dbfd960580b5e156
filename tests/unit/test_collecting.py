"""A worker's process looks for garbage less often, unless its app has a figure of its own."""

import gc
from collections.abc import Iterator

import pytest

from taskforge.cli import service


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_nobody_has_set_is_raised() -> None:
    gc.set_threshold(*service._THRESHOLDS)
    service._collect_less_often()
    assert gc.get_threshold() == (service.NEW_OBJECTS, *service._THRESHOLDS[1:])
    assert gc.get_freeze_count() > 0


def test_what_the_app_has_set_stays() -> None:
    gc.set_threshold(321, 5, 5)
    service._collect_less_often()
    assert gc.get_threshold() == (321, 5, 5)
