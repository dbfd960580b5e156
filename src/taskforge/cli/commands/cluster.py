"""taskforge cluster"""

from typing import Annotated

import msgspec
from cyclopts import Parameter

from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, table
from taskforge.domain.durations import span
from taskforge.domain.node import ClusterState
from taskforge.operations.cluster import services_of
from taskforge.sdk.events import follow
from taskforge.wiring import read_cluster

TOPICS = ("node.", "leader.")


async def cluster(
    *,
    watch: Annotated[
        bool, Parameter(help="Then tell of nodes that join and leave, and of new leaders.")
    ] = False,
    store: Store = STORE,
) -> None:
    """List the processes that share the store, and say which one leads."""
    async with opened(store) as engine:
        state = await read_cluster(engine)
        if store.json:
            emit(_shape(state))
        else:
            _show(state)
        if not watch:
            return
        async for event in follow(engine, None):
            if event.topic.startswith(TOPICS):
                told = {"at": event.at, "topic": event.topic, **event.details}
                if store.json:
                    emit(told)
                else:
                    words = " ".join(f"{name}={value}" for name, value in event.details.items())
                    console().print(
                        styled(
                            "{at} [bold]{topic}[/] {words}",
                            at=f"{event.at:%X}",
                            topic=event.topic,
                            words=words,
                        )
                    )


def _shape(state: ClusterState) -> dict[str, object]:
    return {
        "term": state.leadership.term,
        "leader": state.leadership.node,
        "since": state.leadership.since,
        "nodes": [
            {
                **msgspec.structs.asdict(node),
                "roles": sorted(node.roles),
                "is_leader": node.id == state.leadership.node,
                "is_silent": state.is_silent(node),
            }
            for node in state.nodes
        ],
    }


def _show(state: ClusterState) -> None:
    out = console()
    if not state.nodes:
        out.print("no node is there; start one with `taskforge server`", style="yellow")
        return
    rows = table(
        *("node", "roles", "state", "heard", "up", "version", "address", "late"),
        right=("heard", "up"),
        flexible=("address", "late"),
        spare=("version", "up"),
    )
    for node in state.nodes:
        is_leader = node.id == state.leadership.node
        rows.add_row(
            node.name,
            ", ".join(sorted(node.roles)),
            "silent" if state.is_silent(node) else "leads" if is_leader else "there",
            span(max(0.0, (state.now - node.seen_at).total_seconds())) + " ago",
            span(max(0.0, (state.now - node.joined_at).total_seconds())),
            node.version,
            node.address,
            ", ".join(one.name for one in services_of(node) if one.is_late) or "nothing",
        )
    out.print(rows)
    leader = state.leader
    name = "nobody" if leader is None else leader.name
    out.print(
        styled("term {term}: [bold]{name}[/] leads", term=str(state.leadership.term), name=name)
    )
