"""What is remembered of whether a project is loaded."""

import pytest

from taskforge.storage import loads
from taskforge.storage.loads import MANY_SLOTS, RememberedLoads


def test_loaded_is_more_ready_than_free() -> None:
    remembered = RememberedLoads()
    assert remembered.learn(1, lanes=1, slots=9, free=3, ready=4)
    assert not remembered.learn(1, lanes=1, slots=9, free=3, ready=3)
    assert remembered.get(1) is None  # so few are counted anew by each claim


def test_what_was_dear_to_count_is_remembered_for_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(loads.time, "monotonic", lambda: now)
    remembered = RememberedLoads()
    assert remembered.learn(1, lanes=1, slots=MANY_SLOTS + 1, free=3, ready=4)
    assert remembered.get(1) is True
    assert remembered.get(2) is None
    now += 0.99
    assert remembered.get(1) is True
    now += 0.02
    assert remembered.get(1) is None
    assert not remembered.learn(1, lanes=1, slots=MANY_SLOTS + 1, free=4, ready=4)
    assert remembered.get(1) is False
