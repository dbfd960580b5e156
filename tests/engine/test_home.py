"""The project that an application works in: by setting or URL, on both engines."""

from pathlib import Path

import pytest

from taskforge import TaskForge
from taskforge.domain.audit import Note
from taskforge.domain.errors import NotFound
from taskforge.domain.tenancy import Quota
from taskforge.settings import Settings
from taskforge.storage.records.kinds import RecordKinds
from taskforge.wiring import make_engine

NOTE = Note("test", "test", 1)


async def _store(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str:
    url: str = (
        f"sqlite:///{tmp_path}/home.db"
        if kind == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
    return url


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_app_works_in_the_project_it_names(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    url, schema = await _store(request, kind, tmp_path), "home"
    engine = make_engine(Settings(url=url, schema=schema))
    await engine.open()
    records = RecordKinds(engine)
    mail = await records.projects.create(1, "mail", Quota(), NOTE)
    acme = await records.organizations.create("acme", NOTE)
    assert engine.home == 1
    joined = "&" if "?" in url else "?"
    by_url = TaskForge(f"{url}{joined}project=mail", schema=schema)
    by_setting = TaskForge(url, schema=schema, project="acme/default")
    for forge in (by_url, by_setting):

        @forge.job(queue="q")
        async def noop() -> None: ...

        async with forge:
            handle = await noop.enqueue()
            assert (await handle.job()).project == (await forge.engine()).home
    assert [one.project for one in await engine.queues([mail.number])] == [mail.number]
    assert await engine.queues([1]) == []
    [elsewhere] = [one for one in await records.projects.all() if one.organization == acme.number]
    assert len(await engine.queues([elsewhere.number])) == 1
    with pytest.raises(NotFound, match="did you mean 'mail'"):
        await make_engine(Settings(url=url, schema=schema, project="mial")).open()
    await engine.close()
