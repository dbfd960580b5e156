"""Reads the audit log, seals it and checks the seals.

Entries are appended by whatever changes something, in its own transaction and without waiting for others. Sealing comes after, in
slices that any server runs: the entries below the horizon have a fixed order, (xact, number), and nothing can come to lie between
them; each seal closes the next of them and is chained to the seal before.
"""

from datetime import timedelta
from functools import partial

from taskforge.domain.audit import FIRST, AuditEntry, Note, Seal, Verdict, digest_of, link
from taskforge.domain.errors import Conflict
from taskforge.storage.cabinet import Cabinet, Step, audited

SEALED_AT_ONCE = 1_000


class Journal:
    def __init__(self, cabinet: Cabinet) -> None:
        self._cabinet = cabinet

    async def record(self, note: Note, target: str, *, project: int | None = None, after: object = None) -> None:
        """An entry of its own, for what is not one transaction: a change of every job that matches begins with it."""
        now = await self._cabinet.now()
        await self._cabinet.write([audited(note, now, target, project=project, after=after)])

    async def entries(
        self, organization: int, *, before: int | None, limit: int, action: str | None = None, actor: str | None = None
    ) -> list[AuditEntry]:
        """Newest first, below the number `before`."""
        statement = f"""{_ENTRIES} where organization = $1 and number < $2
            and ($3 = '' or action = $3) and ($4 = '' or actor = $4) order by number desc limit $5"""
        values = (organization, before or 2**62, action or "", actor or "", limit)
        return await self._cabinet.look(AuditEntry, statement, *values)

    # --- Seals ---

    async def seal(self) -> int:
        """Close the next slice; returns how many entries it holds. Of several servers that try, one gets its seal in."""
        last = await self._last()
        entries = await self._behind(last, below=self._cabinet.horizon, limit=SEALED_AT_ONCE)
        if not entries:
            return 0
        digest = digest_of(entries)
        statement = """
            insert into taskforge.audit_seals (number, last_xact, last_number, entries, digest, hash, at)
            values ($1, $2, $3, $4, $5, $6, $7) on conflict (number) do nothing"""
        chained = link(FIRST if last is None else last.hash, digest, len(entries))
        now = await self._cabinet.now()
        values = (1 if last is None else last.number + 1, entries[-1].xact, entries[-1].number, len(entries), digest, chained, now)
        try:
            await self._cabinet.write([Step(statement, values, partial(Conflict, "another server sealed it"))])
        except Conflict:
            return 0
        return len(entries)

    async def verify(self) -> Verdict:
        """Walk the whole chain and compute it anew."""
        previous: Seal | None = None
        checked = seals = 0
        while page := await self._seals(0 if previous is None else previous.number):
            for one in page:
                problem = await self._problem(previous, one)
                if problem is not None:
                    return Verdict(intact=False, seals=seals, entries=checked, problem=problem, head=None)
                seals += 1
                checked += 0 if one.pruned else one.entries
                previous = one
        return Verdict(
            intact=True, seals=seals, entries=checked, problem=None, head=None if previous is None else previous.hash.hex()
        )

    async def _problem(self, previous: Seal | None, seal: Seal) -> str | None:
        if seal.number != (1 if previous is None else previous.number + 1):
            return f"seal {1 if previous is None else previous.number + 1} is missing"
        if seal.hash != link(FIRST if previous is None else previous.hash, seal.digest, seal.entries):
            return f"seal {seal.number} does not follow from the one before it"
        if seal.pruned:
            return None
        entries = await self._behind(previous, below=_UP_TO, limit=seal.entries + 1, upto=seal)
        if len(entries) != seal.entries:
            return f"seal {seal.number} closed {seal.entries} entries, {len(entries)} are there"
        if digest_of(entries) != seal.digest:
            return f"an entry among numbers {entries[0].number} to {entries[-1].number} was altered (seal {seal.number})"
        return None

    async def prune(self, days: float) -> int:
        """Remove the entries of the oldest seals, once all of them are older than that. The seals stay, and the chain with them."""
        now = await self._cabinet.now()
        statement = f"{_SEALS} where not pruned and at < $1 order by number limit 10"
        old = await self._cabinet.look(Seal, statement, now - timedelta(days=days))
        removal = "delete from taskforge.audit where (xact, number) <= ($1, $2)"
        mark = "update taskforge.audit_seals set pruned = true where number = $1"
        for seal in old:
            await self._cabinet.write([Step(removal, (seal.last_xact, seal.last_number)), Step(mark, (seal.number,))])
        return sum(seal.entries for seal in old)

    async def _last(self) -> Seal | None:
        found = await self._cabinet.look(Seal, f"{_SEALS} order by number desc limit 1")
        return found[0] if found else None

    async def _seals(self, after: int) -> list[Seal]:
        return await self._cabinet.look(Seal, f"{_SEALS} where number > $1 order by number limit 100", after)

    async def _behind(self, seal: Seal | None, *, below: str, limit: int, upto: Seal | None = None) -> list[AuditEntry]:
        start = (-1, 0) if seal is None else (seal.last_xact, seal.last_number)
        end = () if upto is None else (upto.last_xact, upto.last_number)
        statement = f"{_ENTRIES} where (xact, number) > ($1, $2) and {below} order by xact, number limit $3"
        return await self._cabinet.look(AuditEntry, statement, *start, limit, *end)


_ENTRIES = """
select xact, number, at, organization, project, actor, action, target, before, after, origin, request from taskforge.audit
"""
_SEALS = "select number, last_xact, last_number, entries, digest, hash, at, pruned from taskforge.audit_seals"
_UP_TO = "(xact, number) <= ($4, $5)"
