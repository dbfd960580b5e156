"""Leaders in one process, on both engines: who leads, who stops when, who goes first."""

import asyncio
import time
from typing import Any

import msgspec
import pytest

from taskforge.control.leader import Leader, Term, steady_seconds
from taskforge.control.membership import Membership, RollCall
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.node import ClusterNode, NewNode, NodeRole
from taskforge.domain.query import FIRST
from taskforge.domain.term import TRUST, Deposed
from taskforge.services import running
from taskforge.storage.records.cluster import ClusterRecords
from tests.support.nodes import a_node
from tests.support.world import World

LEASE = 1.0


class Acts:
    """Notes when it acts, and for whom."""

    name = "acts"

    def __init__(self, owner: str, seen: list[tuple[float, str]]) -> None:
        self._owner = owner
        self._seen = seen
        self.began = asyncio.Event()

    async def run(self, term: Term) -> None:
        self.began.set()
        while True:
            term.check()
            self._seen.append((time.monotonic(), self._owner))
            await asyncio.sleep(0.01)


def candidate(
    cluster: ClusterRecords, owner: str, seen: list[tuple[float, str]], *roles: NodeRole
) -> tuple[Leader, Acts, NewNode]:
    acts, node = Acts(owner, seen), a_node(owner, *roles, beat_seconds=LEASE)
    return Leader(cluster, node, [acts], lease_seconds=LEASE), acts, node


class CutOff(ClusterRecords):
    """A store that can be out of reach."""

    is_away = False

    async def renew(self, node: Any, term: int) -> None:
        if self.is_away:
            raise StoreUnavailable("cut off")
        await super().renew(node, term)

    async def look(self, node: NewNode) -> Any:
        if self.is_away:
            raise StoreUnavailable("cut off")
        return await super().look(node)


async def test_who_stops_resigns_and_another_leads_at_once(world: World) -> None:
    seen: list[tuple[float, str]] = []
    first, acts, _ = candidate(ClusterRecords(world.engine), "one", seen)
    second, others, _ = candidate(ClusterRecords(await world.another()), "two", seen)
    async with running([first]) as [task], asyncio.timeout(20):
        await acts.began.wait()
        async with running([second]):
            await asyncio.sleep(0.3)
            began = time.monotonic()
            task.cancel()
            await others.began.wait()
            assert time.monotonic() - began < LEASE
            assert second.term is not None
            assert second.term.number == 2


async def test_a_leader_that_is_cut_off_stops_before_another_begins(world: World) -> None:
    seen: list[tuple[float, str]] = []
    cut_off = CutOff(world.engine)
    first, acts, _ = candidate(cut_off, "one", seen)
    second, others, _ = candidate(ClusterRecords(await world.another()), "two", seen)
    async with asyncio.timeout(30), running([first]):
        await acts.began.wait()
        async with running([second]):
            await asyncio.sleep(0.5)
            began = time.monotonic()
            cut_off.is_away = True
            await others.began.wait()
            assert time.monotonic() - began < 2 * LEASE
            await asyncio.sleep(0.3)
    last = max(moment for moment, owner in seen if owner == "one")
    start = min(moment for moment, owner in seen if owner == "two")
    assert last < start, f"both acted for {last - start:.3f} s"


async def test_who_stops_resigns_when_nothing_of_it_acts_any_more(world: World) -> None:
    """Another may begin the moment after."""
    told: list[str] = []

    class Told(ClusterRecords):
        async def resign(self, node: Any, term: int) -> None:
            told.append("resigned")
            await super().resign(node, term)

    class Slow(Acts):
        async def run(self, term: Term) -> None:
            try:
                await super().run(term)
            finally:
                await asyncio.sleep(0.1)
                told.append("ended")

    acts = Slow("one", [])
    leader = Leader(Told(world.engine), a_node("one"), [acts], lease_seconds=LEASE)
    async with running([leader]), asyncio.timeout(20):
        await acts.began.wait()
    assert told == ["ended", "resigned"]


async def test_a_process_that_ends_in_order_is_no_node_any_more(world: World) -> None:
    cluster, node = ClusterRecords(world.engine), a_node("one")
    membership = Membership(cluster, node)
    async with running([membership]), asyncio.timeout(20):
        while membership.health()[0].seconds_ago is None:
            await asyncio.sleep(0.01)
        assert len(await cluster.nodes()) == 1
    assert await cluster.nodes() == []


async def test_a_leader_that_hears_of_another_stops_at_once(world: World) -> None:
    """It does not go on for as long as it trusted its lease."""
    refused: list[bool] = []
    ended = asyncio.Event()

    class Refused(ClusterRecords):
        async def renew(self, node: Any, term: int) -> None:
            try:
                await super().renew(node, term)
            except Deposed:
                refused.append(True)
                raise

    class Ends(Acts):
        async def run(self, term: Term) -> None:
            try:
                await super().run(term)
            finally:
                ended.set()

    cluster, acts = Refused(world.engine), Ends("one", [])
    leader = Leader(cluster, a_node("one"), [acts], lease_seconds=LEASE)
    async with running([leader]), asyncio.timeout(20):
        await acts.began.wait()
        reign = (await cluster.look(a_node("two"))).reign
        assert await cluster.take(a_node("two"), reign, 60.0) == 2
        await ended.wait()
    assert refused == [True]


async def test_a_renewal_that_is_slow_to_be_answered_lengthens_no_trust(world: World) -> None:
    """The store may have taken it long before the answer came, and a candidate counts from then."""
    seen: list[tuple[float, str]] = []
    asked: list[float] = []

    class Slow(ClusterRecords):
        async def renew(self, node: Any, term: int) -> None:
            before = steady_seconds()
            await super().renew(node, term)
            await asyncio.sleep(0.3 * LEASE)
            asked.append(before)

    first, acts, _ = candidate(Slow(world.engine), "one", seen)
    async with asyncio.timeout(30), running([first]):
        await acts.began.wait()
        term = first.term
        assert term is not None
        was = term.until
        while term.until == was:
            await asyncio.sleep(0.005)
        assert term.until - asked[0] <= TRUST * LEASE + 0.05


async def test_a_worker_leads_where_no_server_is_and_hands_over_when_one_comes(
    world: World,
) -> None:
    seen: list[tuple[float, str]] = []
    cluster = ClusterRecords(world.engine)
    worker, acts, _ = candidate(cluster, "worker", seen, NodeRole.WORKER)
    server, others, node = candidate(ClusterRecords(await world.another()), "server", seen)
    async with asyncio.timeout(30), running([worker]):
        await acts.began.wait()
        async with running([Membership(cluster, node), server]):
            await others.began.wait()
            assert server.term is not None
            assert worker.term is None


async def test_nodes_join_leave_and_are_found_silent(world: World) -> None:
    cluster = ClusterRecords(world.engine)
    start = (await world.engine.events(None, 1)).cursor or FIRST
    here, gone = a_node("here", beat_seconds=5.0), a_node("gone", beat_seconds=5.0)
    assert await cluster.beat(here)
    assert await cluster.beat(gone, b'[{"name":"upkeep"}]')
    assert not await cluster.beat(here)
    reign = (await cluster.look(here)).reign
    term = await cluster.take(here, reign, 10.0)
    assert term is not None
    world.clock.advance(16)
    await cluster.beat(here)
    assert [node.name for node in await cluster.remove_silent(term)] == ["gone"]
    assert [node.name for node in await cluster.nodes()] == ["here"]
    await cluster.leave(here)
    events = (await world.engine.events(start, 100)).items
    told = [(event.topic, msgspec.json.decode(event.details or "")["name"]) for event in events]
    assert told == [
        ("node.joined", "here"),
        ("node.joined", "gone"),
        ("leader.changed", "here"),
        ("node.left", "gone"),
        ("node.left", "here"),
    ]


async def test_a_node_that_is_heard_of_meanwhile_stays(world: World) -> None:
    late = a_node("late", beat_seconds=5.0)

    class BeatenTo(ClusterRecords):
        """The silent node beats between the leader's look and its removal."""

        async def nodes(self) -> list[ClusterNode]:
            found = await super().nodes()
            world.clock.advance(1)
            await self.beat(late)
            return found

    cluster = BeatenTo(world.engine)
    await cluster.beat(late)
    term = await cluster.take(late, (await cluster.look(late)).reign, 10.0)
    assert term is not None
    start = (await world.engine.events(None, 1)).cursor or FIRST
    world.clock.advance(16)
    assert await cluster.remove_silent(term) == []
    assert [node.name for node in await cluster.nodes()] == ["late"]
    assert (await world.engine.events(start, 100)).items == []


async def test_a_late_resignation_does_not_end_the_same_nodes_next_term(world: World) -> None:
    cluster, node = ClusterRecords(world.engine), a_node()
    first = await cluster.take(node, (await cluster.look(node)).reign, 10.0)
    assert first is not None
    second = await cluster.take(node, (await cluster.look(node)).reign, 10.0)
    assert second == first + 1
    await cluster.resign(node.id, first)
    reign = (await cluster.look(node)).reign
    assert (reign.term, reign.node) == (second, node.id)
    await cluster.renew(node.id, second)


async def test_a_deposed_leader_says_of_nobody_that_they_left(world: World) -> None:
    cluster = ClusterRecords(world.engine)
    await cluster.beat(a_node("silent", beat_seconds=1.0))
    reign = (await cluster.look(a_node())).reign
    old = await cluster.take(a_node(), reign, 10.0)
    assert old is not None
    await cluster.take(a_node(), (await cluster.look(a_node())).reign, 10.0)
    world.clock.advance(60)
    with pytest.raises(Exception, match="is over"):
        await RollCall(cluster, 1.0).run(Term(old, float("inf"), lambda: 0.0))
    assert len(await cluster.nodes()) == 1


async def test_a_clock_that_is_set_changes_nothing(world: World) -> None:
    """T4: whoever looks at the leader does so by a clock of their own."""
    seen: list[tuple[float, str]] = []
    first, acts, _ = candidate(ClusterRecords(world.engine), "one", seen)
    second, _, _ = candidate(ClusterRecords(await world.another()), "two", seen)
    async with asyncio.timeout(30), running([first]):
        await acts.began.wait()
        async with running([second]):
            for seconds in (600, -1_200, 600):
                world.clock.advance(seconds)
                await asyncio.sleep(0.6)
    assert {owner for _, owner in seen} == {"one"}
