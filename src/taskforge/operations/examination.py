"""`taskforge doctor`: looks at everything that can be wrong with a store and its cluster, and says
what to do."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from taskforge.domain.finding import Finding, UpkeepState, fault, fine, warning
from taskforge.domain.node import ClusterState
from taskforge.operations.cluster import read_cluster, services_of
from taskforge.operations.store_watch import LATE_SECONDS
from taskforge.ports.engine import Engine
from taskforge.storage.records.schedules import ScheduleRecords

MOST_CLOCK_SECONDS = 1.0
LATE_SCHEDULE_SECONDS = 60.0


async def examine(engine: Engine) -> list[Finding]:
    began = datetime.now(UTC)
    state = await read_cluster(engine)
    ended = datetime.now(UTC)
    return [
        *(findings := await engine.examine()),
        *_overdue(await engine.behind()),
        _clock(began, state.now, ended),
        await _role(engine),
        _leader(state),
        *_nodes(state),
        *_services(state, {one.subject for one in findings}),
        await _schedules(engine, state.now),
    ]


def _clock(began: datetime, now: datetime, ended: datetime) -> Finding:
    ahead = max(0.0, (began - now).total_seconds(), (now - ended).total_seconds())
    if ahead > MOST_CLOCK_SECONDS:
        return warning(
            "clock",
            f"this machine's clock and the store's are {ahead:.1f} s apart",
            "let NTP set both; times that users give are this machine's",
        )
    return fine("clock", "this machine's clock agrees with the store's")


async def _role(engine: Engine) -> Finding:
    if await engine.is_superuser():
        return warning(
            "role",
            "connected as a superuser, past every wall",
            "use a role of its own before others can reach the server",
        )
    return fine("role", "no superuser")


def _leader(state: ClusterState) -> Finding:
    leader = state.leader
    if not state.nodes:
        return fault(
            "leader",
            "no process is there: no job is rescued, no schedule fires",
            "start `taskforge server` or `taskforge worker`",
        )
    if leader is None or state.is_silent(leader):
        return fault(
            "leader",
            f"nobody leads since {state.leadership.since:%Y-%m-%d %H:%M:%S}: no schedule fires",
            "look at the logs of the nodes; a new leader comes within twice leader_seconds",
        )
    return fine("leader", f"{leader.name} leads, term {state.leadership.term}")


def _nodes(state: ClusterState) -> list[Finding]:
    silent = [node.name for node in state.nodes if state.is_silent(node)]
    versions = sorted({node.version for node in state.nodes})
    found = []
    if silent:
        found.append(
            warning("nodes", f"silent: {_named(silent)}", "see whether these processes live")
        )
    if len(versions) > 1:
        found.append(
            warning("versions", f"nodes run {', '.join(versions)}", "finish the deployment")
        )
    return found or [fine("nodes", f"{len(state.nodes)} there, all heard of")]


def _overdue(state: UpkeepState) -> list[Finding]:
    return [
        warning(
            "overdue",
            f"{name} has had something to do for {seconds:.0f} s",
            "see that a server or a worker runs, and that the store is not slow",
        )
        for name, seconds in state.seconds.items()
        if seconds > LATE_SECONDS
    ] or [fine("overdue", "nothing waits for upkeep")]


def _services(state: ClusterState, known: Collection[str]) -> list[Finding]:
    """How the services of each node fare, as it last said; without what it found in the store,
    which was looked at here too."""
    found = []
    for node in state.nodes:
        if state.is_silent(node):
            continue
        for health in services_of(node):
            if health.is_late and health.behind_seconds is None and health.name not in known:
                ago = "never" if health.seconds_ago is None else f"{health.seconds_ago:.0f} s ago"
                why = "" if health.error is None else f" ({health.error})"
                found.append(
                    warning(
                        "upkeep",
                        f"{health.name} on {node.name} last ran {ago}{why}",
                        "look at its log; a store that is slow or away holds it up",
                    )
                )
    return found or ([fine("upkeep", "nothing is late")] if state.nodes else [])


async def _schedules(engine: Engine, now: datetime) -> Finding:
    before = now - timedelta(seconds=LATE_SCHEDULE_SECONDS)
    late = await ScheduleRecords(engine).due(before, 1_000)
    if late:
        return fault(
            "schedules",
            f"{_named([one.name for one in late])} should have fired a minute ago",
            "see who leads, and its log",
        )
    return fine("schedules", "none is late")


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
