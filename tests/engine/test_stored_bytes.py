"""What organizations keep in the store is counted in pieces, and servers reserve what comes."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest

from taskforge.control import byte_counter
from taskforge.domain.audit import Note
from taskforge.domain.changes import DeleteJob
from taskforge.domain.log import Level, NewLine
from taskforge.domain.outcome import ToSucceeded
from taskforge.domain.tenancy import Ceiling, CeilingReached, Organization
from taskforge.operations.limits.stored_bytes import SLICE_SECONDS, StoredBytes
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.stored_bytes import StoredByteRecords
from tests.support.nodes import a_node, count_bytes
from tests.support.world import World

NOTE = Note("user:ada@example.com", "organization.edit", 1, "127.0.0.1", "r-1")
# noise, which PostgreSQL does not make smaller
NOISE = "".join(chr(35 + (index * index * 7919 + index * 31) % 57) for index in range(1_000))


class Watched(StoredByteRecords):
    """Tells how many rows each piece had."""

    def __init__(self, records: Any) -> None:
        super().__init__(records)
        self.rows: list[int] = []

    async def measure(self, *arguments: Any) -> Any:
        found = await super().measure(*arguments)
        self.rows.append(len(found))
        return found


@pytest.fixture
async def owner(world: World) -> Organization:
    organizations = Organizations(world.engine)
    return await organizations.set_ceiling(
        await organizations.get(1), Ceiling(stored_bytes=100_000), NOTE
    )


async def counted(world: World, records: StoredByteRecords | None = None) -> int:
    await count_bytes(world.engine, records)
    [(size,)] = await world.probe.rows("select counted_bytes from ceilings")
    return int(size)


async def fill(world: World, count: int) -> list[UUID]:
    """Jobs of a thousand bytes, each with a result of a thousand and a line of a thousand."""
    jobs = [await world.enqueue(payload=NOISE) for _ in range(count)]
    worker = await world.worker()
    for claimed in await world.claim(worker, count):
        await world.engine.log([NewLine(claimed.fence, Level.INFO, NOISE)])
        await world.finish(claimed.fence, ToSucceeded(f'"{NOISE}"'.encode()))
    return jobs


async def test_a_count_goes_in_pieces_of_bounded_size_and_sees_what_was_removed(
    world: World, owner: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_counter, "LEAST_ROWS", 3)
    monkeypatch.setattr(byte_counter, "MOST_ROWS", 3)
    jobs, watched = await fill(world, 8), Watched(world.engine)
    size = await counted(world, watched)
    assert 8 * 3_000 <= size <= 8 * 3_300
    assert max(watched.rows) == 3
    assert sum(watched.rows) >= 16
    for job in jobs[:4]:
        await world.change(job, DeleteJob())
    assert await counted(world) == size // 2


async def test_servers_together_keep_to_the_ceiling_between_counts(
    world: World, owner: Organization
) -> None:
    now = [0.0]
    records = StoredByteRecords(world.engine)
    servers = [StoredBytes(records, monotonic=lambda: now[0]) for _ in range(2)]
    taken = 0
    with suppress(CeilingReached):
        while taken < 200:
            await servers[taken % 2].add(owner, 1_000)
            taken += 1
    assert taken == 100
    # none of it was stored after all: the next count says so
    now[0] += SLICE_SECONDS
    assert await counted(world) == 0
    both = await asyncio.gather(*(server.add(owner, 40_000) for server in servers))
    assert all(both)
    with pytest.raises(CeilingReached):
        await servers[0].add(owner, 40_000)


async def test_what_is_reserved_while_a_count_goes_on_is_not_forgotten(
    world: World, owner: Organization
) -> None:
    records, cluster = StoredByteRecords(world.engine), ClusterRecords(world.engine)
    term = await cluster.take(a_node(), (await cluster.look(a_node())).reign, 60.0)
    assert term is not None
    assert await records.reserve(owner.number, 60_000)
    await records.begin_count(term)
    assert await records.reserve(owner.number, 30_000)
    assert not await records.reserve(owner.number, 20_000), "the count has not ended"
    await records.end_count(term, {owner.number: 60_000})
    assert not await records.reserve(owner.number, 20_000)
    await records.begin_count(term)
    await records.end_count(term, {owner.number: 60_000})
    assert await records.reserve(owner.number, 20_000)
