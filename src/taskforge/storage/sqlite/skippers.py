"""Who will not run a job again: workers that skipped it, and lives of workers whose handlers its
arguments did not fit."""

from taskforge.storage.sqlite import codec
from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.transaction import Transaction


def add_skipper(transaction: Transaction, skipped: str | None, incarnation: bytes) -> str | None:
    row = transaction.execute(sql("worker_id"), (incarnation,)).fetchone()
    if row is None:
        return skipped
    return codec.json([*(codec.texts(skipped) or ()), row[0].hex()])


def add_misfit(transaction: Transaction, skipped: str | None, incarnation: bytes) -> str:
    """Incarnations: the next one may have another handler. Those that are gone are forgotten, or
    the list would only grow."""
    known = codec.texts(skipped) or ()
    arguments = (bytes.fromhex("".join(known)), codec.positions(len(known)), transaction.steady)
    gone = (
        {one.hex() for (one,) in transaction.execute(sql("gone_incarnations"), arguments)}
        if known
        else ()
    )
    return codec.json([*(one for one in known if one not in gone), incarnation.hex()])
