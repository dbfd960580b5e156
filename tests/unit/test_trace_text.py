import pytest

from taskforge.domain.trace_text import MOST_STATE, TraceText, read_trace, trace_of

PARENT = f"00-{'a1' * 16}-{'b2' * 8}-01"


def test_a_trace_is_read_as_it_was_written() -> None:
    for made in (
        TraceText(PARENT),
        TraceText(PARENT, "a=1,b=2"),
        TraceText(PARENT, is_batch=True),
        TraceText(PARENT, "a=1", is_batch=True),
    ):
        assert read_trace(made.write()) == made
    assert (TraceText(PARENT).trace_id, TraceText(PARENT).span_id) == ("a1" * 16, "b2" * 8)


@pytest.mark.parametrize("text", ["", "x", PARENT[:-1], PARENT.upper(), PARENT + "0", None])
def test_what_is_no_trace_is_none(text: str | None) -> None:
    assert read_trace(text) is None


def test_a_state_that_cannot_be_kept_is_left_out() -> None:
    assert trace_of(PARENT, "a" * (MOST_STATE + 1)) == TraceText(PARENT)
    assert trace_of(PARENT, "a=1\nb=2") == TraceText(PARENT)
