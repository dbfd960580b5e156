"""Large bodies are worked on so many bytes at a time, in the order in which they came."""

import asyncio

import pytest

from taskforge.api.entry.bodies import LARGE_BYTES
from taskforge.api.entry.room import BodyPlace, BodyRoom, Turns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_one_of_the_largest_or_some_smaller_ones() -> None:
    turns, begun = Turns(10), []

    async def work(name: str, size: int) -> None:
        await turns.take(size)
        begun.append(name)

    tasks = [asyncio.create_task(work(name, size)) for name, size in (("a", 12), ("b", 4))]
    tasks += [asyncio.create_task(work(name, size)) for name, size in (("c", 6), ("d", 1))]
    await settle()
    assert begun == ["a"], "larger than all room goes alone"
    turns.give_back(12)
    await settle()
    assert begun == ["a", "b", "c"]
    turns.give_back(4)
    await settle()
    assert begun == ["a", "b", "c", "d"]
    await asyncio.gather(*tasks)


async def test_who_leaves_while_waiting_holds_up_nobody() -> None:
    turns = Turns(10)
    await turns.take(10)
    first, second = (asyncio.create_task(turns.take(size)) for size in (10, 5))
    await settle()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    turns.give_back(10)
    await asyncio.wait_for(second, 1)
    # called and cancelled in the same moment: the turn goes on to the next
    third, fourth = (asyncio.create_task(turns.take(size)) for size in (10, 10))
    await settle()
    turns.give_back(5)
    third.cancel()
    await asyncio.wait_for(fourth, 1)


async def test_small_bodies_wait_for_no_turn_and_an_answer_ends_one() -> None:
    room = BodyRoom(at_work=LARGE_BYTES)
    large, other, small = (BodyPlace(room, "a") for _ in range(3))
    large.add(LARGE_BYTES + 1)
    other.add(LARGE_BYTES + 1)
    small.add(LARGE_BYTES)
    await large.begin()
    waiting = asyncio.create_task(other.begin())
    await asyncio.wait_for(small.begin(), 1)
    await settle()
    assert not waiting.done()
    large.end()
    await asyncio.wait_for(waiting, 1)
    other.release()
    large.release()
    await asyncio.wait_for(large.begin(), 1)
