"""Writes down what running jobs tell: that they live, how far they are, what they log."""

from collections.abc import Sequence

from taskforge.domain.execution import Beat, merge_beats
from taskforge.domain.log import NewLine, split
from taskforge.domain.outcome import Lost
from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.transaction import Transaction


def write_beats(transaction: Transaction, beats: Sequence[Beat]) -> list[Lost]:
    merged = merge_beats(beats)
    held = _held(transaction, [one.fence.bytes for one in merged])
    rows = []
    for one in merged:
        began = (
            None
            if one.started_seconds_ago is None
            else transaction.now - span(one.started_seconds_ago)
        )
        rows.append((transaction.now, began, one.progress, one.message, one.alive, one.fence.bytes))
    transaction.executemany(sql("beat"), [row for row in rows if row[-1] in held])
    return [Lost(one.fence) for one in merged if one.fence.bytes not in held]


def write_lines(transaction: Transaction, lines: Sequence[NewLine]) -> list[Lost]:
    held = _held(transaction, [line.fence.bytes for line in lines])
    pieces = [piece for line in lines if line.fence.bytes in held for piece in split(line)]
    if pieces:
        last: int = transaction.execute(sql("take_log_numbers"), (len(pieces),)).fetchone()[0]
        rows = []
        for number, piece in enumerate(pieces, last - len(pieces) + 1):
            fence = piece.fence.bytes
            logged_at = transaction.now - span(piece.seconds_ago)
            metadata = codec.maybe_text(piece.metadata)
            job, epoch, project = codec.job_bytes(fence), codec.epoch(fence), held[fence]
            rows.append(
                (job, number, epoch, project, int(piece.level), logged_at, piece.message, metadata)
            )
        transaction.executemany(sql("add_log"), rows)
        # A line is a sign that the handler runs.
        spoke = dict.fromkeys(piece.fence.bytes for piece in pieces)
        transaction.executemany(sql("mark_running"), [(transaction.now, fence) for fence in spoke])
    return [
        Lost(fence)
        for fence in dict.fromkeys(line.fence for line in lines)
        if fence.bytes not in held
    ]


def _held(transaction: Transaction, fences: list[bytes]) -> dict[bytes, int]:
    """The fences among these that are in `running`, and their projects."""
    arguments = (b"".join(fences), codec.positions(len(fences)))
    return {
        fence: project
        for fence, project, *_ in transaction.execute(sql("claims_in_full"), arguments)
    }
