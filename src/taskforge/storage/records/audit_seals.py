"""Seals the audit log and checks the seals.

Entries are appended by whatever changes something, in its own transaction and without waiting for
others. Sealing comes after, in slices that any server runs: the entries below the horizon have a
fixed order, (xact, number), and nothing can come to lie between them; each seal closes the next of
them and is chained to the seal before.
"""

import logging
from datetime import datetime, timedelta
from functools import partial

import msgspec

from taskforge.domain import audit_chain
from taskforge.domain.audit import AuditEntry
from taskforge.domain.audit_chain import UNKEYED, ChainCheck, Head, Seal, SealKeys, next_seal
from taskforge.domain.errors import Conflict
from taskforge.ports.records import Records, Step
from taskforge.storage.records.rows import first

SEALED_AT_ONCE = 1_000

logger = logging.getLogger("taskforge.audit")


class _Walk(msgspec.Struct):
    """How far a check has come."""

    first: Seal | None = None
    previous: Seal | None = None
    seals: int = 0
    entries: int = 0


class AuditSeals:
    def __init__(self, records: Records, keys: SealKeys | None = None) -> None:
        self._records = records
        self._keys = keys or SealKeys()
        self._unknown_key: str | None = None

    async def seal(self) -> int:
        """Close the next slice; returns how many entries it holds. Of several servers that try, one
        gets its seal in. A new key is handed over to without entries, too."""
        last = await self._last_to_follow()
        if last is None and self._unknown_key is not None:
            return 0
        entries = await self._records.look(
            AuditEntry, "audit_entries_to_seal", *_end_of(last), SEALED_AT_ONCE
        )
        is_handed_over = last is None or last.key == self._keys.current
        if not entries and is_handed_over:
            return 0
        now = await self._records.now()
        try:
            await self._records.write([_added(next_seal(self._keys, last, entries, now))])
        except Conflict:
            return 0
        return len(entries)

    async def _last_to_follow(self) -> Seal | None:
        """The last seal; None where there is none, or where it is not for this server to seal on,
        which is told once."""
        last = first(await self._records.look(Seal, "last_seal"))
        key = None if last is None else last.key
        is_for_us = key is None or (
            self._keys.knows(key) and not (key != UNKEYED and self._keys.current == UNKEYED)
        )
        if is_for_us:
            self._unknown_key = None
            return last
        if self._unknown_key != key:
            logger.error(
                "the audit log is not sealed by this server: its last seal is made with the key "
                "%s, which is not among this server's (audit_key); give it behind the new one",
                key,
            )
        self._unknown_key = key
        return None

    async def head(self) -> Seal | None:
        """The last seal, to be kept outside the store."""
        return first(await self._records.look(Seal, "last_seal"))

    async def verify(self, days: float, head: Head | None = None) -> ChainCheck:
        """Walk the whole chain and compute it anew. `days`: how long entries are kept. `head`: the
        last that was exported."""
        last = await self.head()
        verdict = await self._verdict(last, days, head)
        for _ in range(3):
            if verdict.intact or last is None:
                break
            # what was pruned meanwhile is not missing
            was, last = last.pruned_to, await self.head()
            if last is None or last.pruned_to == was:
                break
            verdict = await self._verdict(last, days, head)
        return verdict

    async def _verdict(self, last: Seal | None, days: float, head: Head | None) -> ChainCheck:
        walk = _Walk()
        problem = audit_chain.problem_of_end(head, last)
        if problem is None and last is not None:
            problem = await self._problem_of_chain(walk, last, days, head)
        verdict = ChainCheck(
            intact=problem is None,
            seals=walk.seals,
            entries=walk.entries,
            problem=problem,
            head=None,
        )
        if problem is not None or walk.previous is None:
            return verdict
        return msgspec.structs.replace(
            verdict,
            head=str(Head.of(walk.previous)),
            key=walk.previous.key or None,
            checkpoint=walk.previous.pruned_to or None,
        )

    async def _problem_of_chain(
        self, walk: _Walk, last: Seal, days: float, head: Head | None
    ) -> str | None:
        cutoff = await self._records.now() - timedelta(days=days)
        while page := await self.seals_behind(0 if walk.previous is None else walk.previous.number):
            if walk.first is None:
                walk.first = page[0]
            problem = audit_chain.problem_of_beginning(
                walk.first, last
            ) or audit_chain.problem_of_head(head, walk.first, page)
            for seal in page:
                problem = problem or await self._problem(walk, seal, last.pruned_to, cutoff)
                if problem is not None:
                    return problem
                walk.seals += 1
                walk.entries += 0 if seal.number <= last.pruned_to else seal.entries
                walk.previous = seal
        return None

    async def _problem(
        self, walk: _Walk, seal: Seal, pruned_to: int, cutoff: datetime
    ) -> str | None:
        """Of a seal behind the one before it, and of the entries between."""
        previous, problem = walk.previous, audit_chain.problem_of_seal(self._keys, seal)
        if problem is None and previous is not None:
            problem = audit_chain.problem_of_link(self._keys, previous, seal)
            is_checkpoint = previous.pruned_to < seal.pruned_to == pruned_to
            if problem is None and is_checkpoint and walk.first is not None:
                problem = audit_chain.problem_of_age(walk.first, seal, cutoff)
        if problem is not None:
            return problem
        entries = await self.entries_of(seal, previous)
        if seal.number <= pruned_to:
            return f"entries of seal {seal.number} are there, and were pruned" if entries else None
        return audit_chain.problem_of_entries(seal, entries)

    async def prune(self, days: float) -> int:
        """Remove the entries of the oldest seals, once all of them are older than that, and all of
        these seals but the last. A checkpoint, chained to the newest seal, stands for them."""
        last = await self._last_to_follow()
        if last is None:
            return 0
        now = await self._records.now()
        old = await self._records.look(
            Seal, "seals_to_prune", last.pruned_to, now - timedelta(days=days)
        )
        numbers = range(last.pruned_to + 1, last.pruned_to + 1 + len(old))
        if not old or [seal.number for seal in old] != list(numbers):
            return 0
        newest = old[-1]
        try:
            await self._records.write(
                [
                    _added(next_seal(self._keys, last, [], now, pruned_to=newest.number)),
                    Step("remove_audit_entries", _end_of(newest)),
                    Step("remove_pruned_seals", (newest.number,)),
                ]
            )
        except Conflict:
            return 0  # another server was quicker; the next turn goes on
        return sum(seal.entries for seal in old)

    async def seals_behind(self, number: int) -> list[Seal]:
        """The next hundred."""
        return await self._records.look(Seal, "seals_behind", number)

    async def entries_of(self, seal: Seal, previous: Seal | None) -> list[AuditEntry]:
        """The entries that lie between two seals, and one more than there should be if there is
        one."""
        return await self._records.look(
            AuditEntry, "sealed_audit_entries", *_end_of(previous), seal.entries + 1, *_end_of(seal)
        )


def _added(seal: Seal) -> Step:
    return Step(
        "add_seal",
        msgspec.structs.astuple(seal),
        partial(Conflict, "another server sealed it"),
    )


def _end_of(seal: Seal | None) -> tuple[int, int]:
    """Where the entries of a seal end, in their order."""
    return (-1, 0) if seal is None else (seal.last_xact, seal.last_number)
