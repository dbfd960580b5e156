import json
import traceback

import pytest

from taskforge.worker.frames import frames_of


def fails(depth: int) -> None:
    if depth:
        fails(depth - 1)
    raise ValueError("boom\nin two lines")


def caught(chained: bool = False) -> ValueError:
    try:
        try:
            fails(2)
        except ValueError as error:
            if chained:
                raise ValueError("later") from error
            raise
    except ValueError as error:
        return error
    raise AssertionError


def test_says_what_the_standard_traceback_says_without_its_markers() -> None:
    error = caught()
    standard = "".join(traceback.format_exception(error))
    without_markers = [
        line for line in standard.splitlines() if not set(line.strip()) <= {"^", "~"}
    ]
    without_repeats = [line for line in without_markers if "Previous line repeated" not in line]
    assert frames_of(error).splitlines() == without_repeats


class Outer:
    class InnerError(Exception):
        pass


NOTED = ValueError("with a note")
NOTED.add_note("look here")


@pytest.mark.parametrize(
    "error",
    [
        ValueError(),
        ValueError("x"),
        KeyError("k"),
        Outer.InnerError("in"),
        json.JSONDecodeError("m", "doc", 1),
        OSError(2, "gone"),
        NOTED,
    ],
    ids=repr,
)
def test_the_last_lines_are_the_standard_ones(error: BaseException) -> None:
    told = frames_of(error).splitlines()[1:]
    assert told == "".join(traceback.format_exception_only(error)).splitlines()


def test_a_chain_is_told_whole() -> None:
    text = frames_of(caught(chained=True))
    assert "direct cause" in text
    assert "boom" in text
    assert "later" in text
