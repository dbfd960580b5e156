"""The loops of the upkeep live and end together."""

import asyncio
from pathlib import Path

import pytest

from taskforge.operations.upkeep import Upkeep
from taskforge.storage.sqlite.engine import SqliteEngine


async def test_a_loop_that_fails_takes_the_others_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SqliteEngine(tmp_path / "jobs.db", durable=False)
    await engine.open()
    right, staged = engine.stage, []

    async def stage(limit: int) -> int:
        staged.append(limit)
        return await right(limit)

    async def fold(_: int) -> int:
        raise RuntimeError("no such table")

    monkeypatch.setattr(engine, "stage", stage)
    monkeypatch.setattr(engine, "fold", fold)
    try:
        with pytest.raises(RuntimeError, match="no such table"):
            await Upkeep(engine, interval=0.01).run()
        before = len(staged)
        await asyncio.sleep(0.1)
        assert len(staged) == before
    finally:
        await engine.close()
