"""Circuits from Python, on each kind of store and through a server: `depends_on`, and
`forge.circuits`."""

import asyncio

import pytest

from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.job import JobStatus
from tests.support.crew import PATIENCE, Crew


async def test_jobs_wait_while_what_they_depend_on_is_down(crew_on_each: Crew) -> None:
    """It opens by failures and is closed by hand; what waited spent nothing."""
    forge, is_down = crew_on_each.forge, [True]

    @forge.job(depends_on=["stripe"], max_attempts=1)
    async def charge(number: int) -> int:
        if is_down[0]:
            raise RuntimeError("stripe is down")
        return number

    await crew_on_each.start(slots=3)
    await forge.circuits.set_dependency("stripe", least_calls=3, open_seconds=60)
    failed = [await charge.enqueue(one) for one in range(3)]
    for handle in failed:
        assert (await crew_on_each.end(handle)).status is JobStatus.FAILED
    async with asyncio.timeout(PATIENCE):  # it is judged just behind the end that opens it
        while not (found := await forge.circuits.all("open")):
            await asyncio.sleep(0.01)
    [circuit] = found
    assert (circuit.dependency, circuit.job_types) == ("stripe", ("charge",))
    await forge.circuits.open(dependency="stripe")
    waiting = [await charge.enqueue(one) for one in range(5)]
    assert (await forge.explain(waiting[0].id)).reasons[0].code == "circuit_open"
    is_down[0] = False
    assert {(await forge.get(handle.id)).attempt_count for handle in waiting} == {0}
    assert (await forge.circuits.close(dependency="stripe")).mode == "closed"
    async with asyncio.timeout(PATIENCE):
        assert await forge.results(waiting) == [0, 1, 2, 3, 4]
    with pytest.raises(NotFound):
        await forge.circuits.open(dependency="strip")
    with pytest.raises(Invalid, match="job_type"):
        await forge.circuits.open(queue="default")
    await forge.circuits.remove_dependency("stripe")
    assert await forge.circuits.all() == []
