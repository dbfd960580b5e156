from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain.errors import Invalid
from taskforge.domain.requirements import canonical, meets


@pytest.mark.parametrize(
    ("requires", "capabilities", "met"),
    [
        ({}, {}, True),
        ({"gpu": True}, {"gpu": True}, True),
        ({"gpu": True}, {"gpu": False}, False),
        ({"gpu": True}, {}, False),
        ({"gpu": False}, {}, False),
        ({"memory_gb": {">=": 16}}, {"memory_gb": 16}, True),
        ({"memory_gb": {">=": 16}}, {"memory_gb": 15.9}, False),
        ({"memory_gb": {">=": 8, "<": 32}}, {"memory_gb": 16}, True),
        ({"memory_gb": {">=": 8, "<": 32}}, {"memory_gb": 32}, False),
        ({"memory_gb": {">": 8}}, {"memory_gb": 8}, False),
        ({"memory_gb": {"<=": 8}}, {"memory_gb": 8}, True),
        ({"memory_gb": {">=": 16}}, {"memory_gb": "plenty"}, False),
        ({"region": "eu"}, {"region": "eu"}, True),
        ({"region": {"in": ["eu", "us"]}}, {"region": "us"}, True),
        ({"region": {"in": ["eu", "us"]}}, {"region": "ap"}, False),
        ({"region": {"!=": "eu"}}, {"region": "us"}, True),
        ({"region": {"!=": "eu"}}, {}, False),
        ({"gpu": True, "region": "eu"}, {"gpu": True, "region": "us"}, False),
        ({"worker_type": "specialized_gpu"}, {"worker_type": "specialized_gpu"}, True),
    ],
)
def test_a_worker_meets_a_requirement_or_not(
    requires: dict[str, Any], capabilities: dict[str, Any], met: bool
) -> None:
    assert meets(canonical(requires), capabilities) is met


NAMES = st.text(st.characters(codec="utf-8", categories=["L"]), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, st.integers() | st.text(max_size=5) | st.booleans(), max_size=6))
def test_equal_requirements_share_one_text_and_are_met_by_themselves(
    requires: dict[str, Any],
) -> None:
    backwards = dict(reversed(requires.items()))
    assert canonical(requires) == canonical(backwards)
    assert meets(canonical(requires), requires)
    assert (canonical(requires) == "") == (not requires)


@pytest.mark.parametrize(
    ("requires", "field"),
    [
        ([("gpu", True)], "requires"),
        ({str(number): 1 for number in range(21)}, "requires"),
        ({"": 1}, "requires"),
        ({"n" * 101: 1}, "requires"),
        ({"gpu": None}, "requires.gpu"),
        ({"gpu": [1]}, "requires.gpu"),
        ({"gpu": {"like": 1}}, "requires.gpu"),
        ({"gpu": {"in": "abc"}}, "requires.gpu"),
        ({"gpu": {">=": [1]}}, "requires.gpu"),
        ({"a": "x" * 1_000}, "requires"),
    ],
)
def test_bad_requirements_name_what_is_wrong(requires: Any, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        canonical(requires)
    assert caught.value.field == field
