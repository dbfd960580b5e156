"""Processes that want to write take turns: none starves, and one that was frozen while it waited
stops nobody."""

import asyncio
import time
from pathlib import Path

import pytest

from taskforge.domain.errors import LeaseLost
from taskforge.domain.job import new_job
from taskforge.domain.worker import NewWorker, Sample
from taskforge.storage.sqlite import connections
from taskforge.storage.sqlite.engine import SqliteEngine
from taskforge.storage.sqlite.turn import IMPATIENCE_SECONDS, PLACES, Turn
from tests.engine_sqlite.processes import Child

COMMIT_SECONDS = 0.04
BUSY = f"""
import sys, time
from pathlib import Path
from taskforge.storage.sqlite.connections import begin, connect_writer
from taskforge.storage.sqlite.turn import Turn

connection = connect_writer(Path(sys.argv[1]), durable=True, make=True)
turn = Turn(Path(sys.argv[1]))
print("ready", flush=True)
while True:
    begin(connection, 60) if sys.argv[2] == "twin" else turn.begin(connection, 60)
    connection.execute("insert into written values (1)")
    time.sleep({COMMIT_SECONDS})
    connection.execute("commit")
"""


@pytest.mark.parametrize("twin", [False, True])
def test_a_renewal_waits_for_each_of_the_others_once(
    path: Path, child: type[Child], *, twin: bool
) -> None:
    made = connections.connect_writer(path, durable=True, make=True)
    made.execute("create table written (one)")
    children = [child(BUSY, path, "twin" if twin else "") for _ in range(3)]
    for one in children:
        assert one.line() == "ready"
    turn = Turn(path)
    waits = []
    for _ in range(12):
        started = time.monotonic()
        connections.begin(made, 60) if twin else turn.begin(made, 60)
        waits.append(time.monotonic() - started)
        made.execute("commit")
        time.sleep(0.05)
        if twin and max(waits) > 0.5:
            break
    turn.close()
    made.close()
    # In the queue: the one that writes and the two others that came before. The rest is for a
    # machine with other things to do.
    assert max(waits) > 0.5 if twin else sorted(waits)[len(waits) // 2] < 4 * COMMIT_SECONDS + 0.1


FROZEN = f"""
import fcntl, os, signal, sys
file = open(sys.argv[1] + "-turn", "a+b")
fcntl.lockf(file, fcntl.LOCK_EX, {PLACES}, 0)
print("first", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


async def test_who_is_frozen_in_the_queue_stops_nobody(
    path: Path, engine: SqliteEngine, child: type[Child]
) -> None:
    frozen = child(FROZEN, path)
    assert frozen.line() == "first"
    started = time.monotonic()
    for _ in range(5):
        await engine.insert(1, [new_job("default", "work")])
    took = time.monotonic() - started
    assert 5 * IMPATIENCE_SECONDS <= took < 5 * IMPATIENCE_SECONDS + 2
    frozen.kill()
    frozen.wait()
    started = time.monotonic()
    for _ in range(5):
        await engine.insert(1, [new_job("default", "work")])
    assert time.monotonic() - started < took


async def test_a_renewal_that_was_asked_for_in_time_counts_however_long_the_file_is_busy(
    path: Path, engine: SqliteEngine
) -> None:
    punctual, left = [
        await engine.register(1, NewWorker(name=name, max_concurrent_jobs=1_000), 0.5)
        for name in ("punctual", "left")
    ]
    other = connections.connect_writer(path, durable=True, make=True)
    other.execute("begin immediate")
    leaving = asyncio.ensure_future(engine.deregister(left.incarnation))
    renewing = [
        asyncio.ensure_future(engine.renew(one.incarnation, 0.5, Sample()))
        for one in (punctual, left)
    ]
    await asyncio.sleep(0.8)
    other.execute("rollback")
    other.close()
    await leaving
    assert not (await renewing[0]).drain
    with pytest.raises(LeaseLost):
        await renewing[1]
    await asyncio.sleep(0.6)
    with pytest.raises(LeaseLost):
        await engine.renew(punctual.incarnation, 0.5, Sample())
