import traceback

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
    without_markers = [line for line in standard.splitlines() if not set(line.strip()) <= {"^", "~"}]
    without_repeats = [line for line in without_markers if "Previous line repeated" not in line]
    assert frames_of(error).splitlines() == without_repeats


def test_a_chain_is_told_whole() -> None:
    text = frames_of(caught(chained=True))
    assert "direct cause" in text
    assert "boom" in text
    assert "later" in text
