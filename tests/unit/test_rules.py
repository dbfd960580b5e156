import dataclasses
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain import rules
from taskforge.domain.errors import Invalid, nearest


@dataclasses.dataclass
class Point:
    x: float


class Pair(msgspec.Struct):
    left: float


NESTED: list[Any] = []
for _ in range(100_000):
    NESTED = [NESTED]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: rules.text("name", "", most=100),
            "name: has 0 characters; use 1 to 100 characters",
        ),
        (
            lambda: rules.text("name", "x" * 101, most=100),
            "name: has 101 characters; use 1 to 100 characters",
        ),
        (
            lambda: rules.text("name", None, most=9),
            "name: is missing, not text; use 1 to 9 characters",
        ),
        (lambda: rules.text("name", 7, most=9), "name: is a int, not text; use 1 to 9 characters"),
        (
            lambda: rules.text("name", "a\nb", most=9),
            "name: contains a control character; use printable characters only",
        ),
        (
            lambda: rules.text("name", "a\x00", most=9),
            "name: contains a control character; use printable characters only",
        ),
        (
            lambda: rules.text("name", "a\x7f", most=9),
            "name: contains a control character; use printable characters only",
        ),
        (
            lambda: rules.text("name", "\ud800", most=9),
            "name: contains half of a surrogate pair; use valid Unicode text",
        ),
        (
            lambda: rules.integer("priority", 10, 0, 9),
            "priority: is 10; use a whole number from 0 to 9",
        ),
        (
            lambda: rules.integer("priority", -1, 0, 9),
            "priority: is -1; use a whole number from 0 to 9",
        ),
        (
            lambda: rules.integer("priority", True, 0, 9),
            "priority: is a bool, not a whole number; use a whole number from 0 to 9",
        ),
        (
            lambda: rules.integer("priority", 1.0, 0, 9),
            "priority: is a float, not a whole number; use a whole number from 0 to 9",
        ),
        (lambda: rules.number("rate", math.nan, 0, 9), "rate: is nan; use a number from 0 to 9"),
        (lambda: rules.number("rate", math.inf, 0, 9), "rate: is inf; use a number from 0 to 9"),
        (
            lambda: rules.number("rate", "1", 0, 9),
            "rate: is a str, not a number; use a number from 0 to 9",
        ),
        (
            lambda: rules.number("rate", False, 0, 9),
            "rate: is a bool, not a number; use a number from 0 to 9",
        ),
        (lambda: rules.flag("drain", 1), "drain: is a int, not true or false; use true or false"),
        (lambda: rules.choice("kind", "c", ("a", "b")), "kind: is 'c'; use one of a, b"),
        (
            lambda: rules.moment("at", datetime(2030, 1, 1)),  # noqa: DTZ001 - the mistake under test
            "at: is a datetime without a time zone; use a zoned one such as datetime.now(UTC)",
        ),
        (
            lambda: rules.moment("at", -5),
            "at: is negative (-5 seconds); use 0 or more seconds from now",
        ),
        (
            lambda: rules.moment("at", timedelta(seconds=-1)),
            "at: is negative (-1 seconds); use 0 or more seconds from now",
        ),
        (lambda: rules.moment("at", math.nan), "at: is nan seconds; use at most ten years"),
        (lambda: rules.moment("at", 1e12), "at: is 1000000000000.0 seconds; use at most ten years"),
        (
            lambda: rules.moment("at", "soon"),
            "at: is a str; use a zoned datetime or a number of seconds from now",
        ),
        (
            lambda: rules.moment("at", True),
            "at: is a bool; use a zoned datetime or a number of seconds from now",
        ),
        (
            lambda: rules.json_bytes("payload", math.nan, most=99),
            "payload: is nan, which JSON cannot carry; use a finite number or null",
        ),
        (
            lambda: rules.json_bytes("payload", {"a": [1, {"b": -math.inf}]}, most=99),
            "payload.a[1].b: is -inf, which JSON cannot carry; use a finite number or null",
        ),
        (
            lambda: rules.json_bytes("payload", Point(math.inf), most=99),
            "payload.x: is inf, which JSON cannot carry; use a finite number or null",
        ),
        (
            lambda: rules.json_bytes("payload", Pair(math.inf), most=99),
            "payload.left: is inf, which JSON cannot carry; use a finite number or null",
        ),
        (
            lambda: rules.json_bytes("payload", "x" * 100, most=99),
            "payload: takes 102 bytes as JSON; use at most 99 bytes",
        ),
        (
            lambda: rules.json_bytes("payload", NESTED, most=10**9),
            "payload: is nested too deeply; use a flatter structure",
        ),
        (
            lambda: rules.json_bytes("payload", "\ud800", most=99),
            "payload: contains half of a surrogate pair; use valid Unicode text",
        ),
    ],
)
def test_each_refusal_names_the_field_the_problem_and_what_is_right(
    check: Callable[[], Any], message: str | None
) -> None:
    if message is None:
        error = check()
        assert (
            str(error) == "settings.max_retry: is not a known setting; did you mean 'max_retries'?"
        )
        return
    with pytest.raises(Invalid) as caught:
        check()
    assert str(caught.value) == message
    assert caught.value.field == message.partition(":")[0]


def test_what_json_cannot_write_is_refused_with_the_reason() -> None:
    with pytest.raises(Invalid, match="payload: cannot be written as JSON"):
        rules.json_bytes("payload", object(), most=99)
    with pytest.raises(Invalid, match="payload: cannot be written as JSON"):
        rules.json_bytes("payload", {1.5: object()}, most=99)


def test_an_unknown_setting_close_to_one_names_it() -> None:
    error = rules.unknown("settings", "max_retry", ("max_retries",))
    assert str(error) == "settings.max_retry: is not a known setting; did you mean 'max_retries'?"


def test_an_unknown_setting_far_from_all_lists_the_known_ones() -> None:
    error = rules.unknown("settings", "zzz", ("alpha", "beta"))
    assert error.expected == "known ones are alpha, beta"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_json_comes_back_as_it_went_in(value: Any) -> None:
    assert msgspec.json.decode(rules.json_bytes("payload", value, most=10**6)) == value


@given(JSON, st.sampled_from([math.nan, math.inf, -math.inf]))
def test_a_number_json_cannot_carry_is_found_beside_anything(value: Any, bad: float) -> None:
    with pytest.raises(Invalid, match="JSON cannot carry"):
        rules.json_bytes("payload", {"good": value, "bad": [value, bad]}, most=10**6)


def test_bounds_belong_to_the_range() -> None:
    assert rules.text("name", "x" * 100, most=100) == "x" * 100
    assert rules.text("name", "", least=0, most=1) == ""
    assert rules.integer("priority", 9, 0, 9) == 9
    assert rules.integer("priority", 0, 0, 9) == 0
    assert rules.number("rate", 9, 0, 9) == 9.0
    assert rules.moment("at", 0) == 0.0
    assert rules.moment("at", timedelta(minutes=1)) == 60.0
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert rules.moment("at", moment) is moment
    assert rules.json_bytes("payload", "x" * 97, most=99) == b'"' + b"x" * 97 + b'"'


def test_nearest_finds_a_slip_and_nothing_for_a_stranger() -> None:
    assert nearest("emial", ["email", "reports"]) == "email"
    assert nearest("xyz", ["email", "reports"]) is None
