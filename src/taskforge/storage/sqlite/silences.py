"""Silences in which nobody could look at the file (disk full, machine frozen, nobody there): they
are nobody's death."""

from uuid import UUID

from taskforge.storage.sqlite.catalog_cache import sql
from taskforge.storage.sqlite.codec import span
from taskforge.storage.sqlite.transaction import Transaction


def look(transaction: Transaction, rhythm: float | None) -> tuple[int, int]:
    """Note that somebody looks, and when, by both clocks; a silence before it is bridged first."""
    bridge(transaction)
    promised = None if rhythm is None else span(rhythm)
    transaction.execute(sql("look"), (transaction.steady, transaction.now, promised))
    return transaction.now, transaction.steady


def begin(transaction: Transaction) -> None:
    """Somebody comes. Where nothing ran and nobody was there, nobody had to look, and there was no
    silence."""
    *_, alive = transaction.execute(sql("look_due")).fetchone()
    if not alive:
        transaction.execute(sql("looked"), (transaction.steady, transaction.now))


def is_silent(transaction: Transaction, heard: int | None) -> bool:
    """Whether a worker last heard of at this time, and everybody else, was silent for longer than
    was promised."""
    at, _, rhythm = _last(transaction)
    return rhythm is not None and abs(transaction.steady - max(at, heard or 0)) > rhythm


def bridge(transaction: Transaction, incarnation: UUID | None = None) -> None:
    """As bridge.sql of PostgreSQL says. The clock that leases go by is never stepped here, unless
    it is a test's; the wall's, by which timeouts and heartbeats are kept, may have been since the
    last look. `incarnation`: who asks, which may run nothing."""
    at, wall, rhythm = _last(transaction)
    if rhythm is None:
        return
    now, steady = transaction.now, transaction.steady
    seen = (
        at
        if at > steady
        else max(at, transaction.execute(sql("last_renewal"), (steady,)).fetchone()[0] or 0)
    )
    stepped = (now - wall) - (steady - at)
    silence, step = (value if abs(value) > rhythm else 0 for value in (steady - seen, stepped))
    if not silence and not step:
        return
    kept = 0
    if silence:
        asking = None if incarnation is None else incarnation.bytes
        rows = transaction.execute(sql("bridge_leases"), (seen, steady, now, asking)).fetchall()
        kept = sum(alive for (alive,) in rows)
    transaction.execute(sql("bridge_claims"), (now, silence, step, wall + step, wall + seen - at))
    transaction.execute(sql("looked"), (steady, now))
    if kept:
        transaction.catalog_cache.news.append(
            f"nobody could look at the store for a while: {kept} leases of before go on"
        )


def _last(transaction: Transaction) -> tuple[int, int, int | None]:
    row: tuple[int, int, int | None] = transaction.execute(sql("last_look")).fetchone()
    return row
