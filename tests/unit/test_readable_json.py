"""A document that is scanned in pieces is refused exactly when a decoder refuses it."""

import contextlib
import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain import readable_json

NUMBERS = ["1e999", "-1E+400", "1e308", "1e-999", "9" * 400, "9" * 5_000, "0.5e2", "1e0400"]
WORDS = ["true", "false", "null", "e999", '"', "\\", '\\"', "\\\\", "1e999", "é", "x" * 40]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts | st.sampled_from(NUMBERS).map(lambda n: [n]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def written(value: Any) -> str:
    """As JSON; a list of one text that is a number becomes that number."""
    if isinstance(value, list):
        if len(value) == 1 and value[0] in NUMBERS:
            return str(value[0])
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def is_refused(check: Any, document: bytes) -> bool:
    try:
        check(document)
    except (msgspec.MsgspecError, UnicodeError):
        return True
    return False


@given(value=values, piece=st.integers(7, 90))
def test_it_agrees_with_a_decoder(value: Any, piece: int) -> None:
    document = written(value).encode()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(readable_json, "DECODED_AT_MOST", 0)
        patched.setattr(readable_json, "PIECE_BYTES", piece)
        assert is_refused(readable_json.check_readable, document) == is_refused(
            msgspec.json.decode, document
        )


@given(junk=st.binary(max_size=60))
def test_bytes_that_are_no_text_are_refused(junk: bytes) -> None:
    document = b'["' + junk.replace(b'"', b"").replace(b"\\", b"") + b'"]'
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(readable_json, "DECODED_AT_MOST", 0)
        patched.setattr(readable_json, "PIECE_BYTES", 7)
        if not is_refused(bytes.decode, document):
            return
        assert is_refused(readable_json.check_readable, document)


@pytest.mark.parametrize("start", [b"[", b'["1e999",'])
def test_it_takes_little_memory(start: bytes) -> None:
    document = start + b"{}," * 300_000 + b"{}]"
    tracemalloc.start()
    try:
        with contextlib.suppress(msgspec.MsgspecError):
            readable_json.check_readable(document)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * len(document)
