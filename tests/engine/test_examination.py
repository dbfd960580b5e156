"""What an examination finds on both engines, and that each finding that is no good says what to
do."""

from taskforge.domain.finding import Severity
from taskforge.domain.schedule import NewSchedule, Timing, job_template
from taskforge.operations.examination import examine
from taskforge.storage.records.cluster import ClusterRecords
from taskforge.storage.records.schedules import ScheduleRecords
from tests.support.nodes import a_node
from tests.support.world import World


async def found(world: World) -> dict[str, Severity]:
    findings = await examine(world.engine)
    assert all(one.next_step for one in findings if one.level is not Severity.FINE), findings
    return {one.subject: one.level for one in findings}


async def test_a_store_without_a_process_has_no_leader(world: World) -> None:
    levels = await found(world)
    assert levels["leader"] is Severity.FAULT
    assert levels["clock"] is Severity.WARNING  # the tests' clock is in another year
    assert levels["schedules"] is Severity.FINE


async def test_a_leader_that_is_heard_of_is_fine_and_a_late_service_is_told_of(
    world: World,
) -> None:
    cluster, node = ClusterRecords(world.engine), a_node("here", beat_seconds=5.0)
    await cluster.beat(node, b'[{"name":"pruning","seconds_ago":900.0,"is_late":true}]')
    assert await cluster.take(node, (await cluster.look(node)).reign, 10.0)
    levels = await found(world)
    assert (levels["leader"], levels["nodes"], levels["upkeep"]) == (
        Severity.FINE,
        Severity.FINE,
        Severity.WARNING,
    )
    world.clock.advance(60)
    levels = await found(world)
    assert (levels["leader"], levels["nodes"]) == (Severity.FAULT, Severity.WARNING)


async def test_a_schedule_that_nobody_fires_is_told_of(world: World) -> None:
    new = NewSchedule(
        name="tick", timing=Timing(every_seconds=10.0), job=job_template("default", "tick")
    )
    await ScheduleRecords(world.engine).create(1, new, None)
    world.clock.advance(90)
    assert (await found(world))["schedules"] is Severity.FAULT
