"""What a lease keeper says to its worker goes through a pipe that nobody may wait for: each word in
one piece."""

from uuid import uuid4

import msgspec

from taskforge.worker.processes.keeper_words import Word, split_word

PIPE_BUF = 4_096  # what a pipe takes in one piece or not at all


def test_every_word_fits_into_a_pipe_in_one_piece_and_none_is_left_out() -> None:
    fences = [uuid4() for _ in range(300)]
    for reason in ("", "ticket 17", 1_000 * "ü", 500 * "\U0001f600", 500 * "\n"):
        reasons = dict.fromkeys(fences, reason) if reason else {}
        said = list(split_word(Word(True, tuple(fences), reasons)))
        assert all(len(msgspec.json.encode(word)) < PIPE_BUF and word.drain for word in said)
        assert [fence for word in said for fence in word.cancelled] == fences
        assert {one for word in said for one in word.cancel_reasons.values()} == (
            {reason[:500]} if reason else set()
        )


def test_a_word_without_cancels_is_one() -> None:
    assert list(split_word(Word(lost="gone"))) == [Word(lost="gone")]
