"""The head of the audit log outside the store: exported over the API and to a file, and given to a
verification."""

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskforge.domain.access import Role
from taskforge.domain.audit_chain import Head
from taskforge.operations.audit import AuditHeads, last_head, seal_keys, tell_unkeyed
from taskforge.settings import Settings
from tests.api.conftest import Api
from tests.support.adhoc_statements import step_of

VERIFICATION = "/api/v1/audit/verification"


@pytest.fixture
async def platform_owner(api: Api) -> httpx.AsyncClient:
    return api.client(await api.user(1, Role.OWNER))


async def make_entries(root: httpx.AsyncClient, api: Api, name: str) -> None:
    await root.post("/api/v1/queues", json={"name": name})
    await api.platform.records.audit_seals.seal()


async def test_a_log_that_was_cut_shows_with_the_head_that_was_exported(
    platform_owner: httpx.AsyncClient, api: Api
) -> None:
    await make_entries(platform_owner, api, "one")
    await make_entries(platform_owner, api, "two")
    told = (await platform_owner.get("/api/v1/audit/head")).json()
    assert told["head"].startswith(f"{told['seal']}:")
    with_head = {"head": told["head"]}
    assert (await platform_owner.get(VERIFICATION, params=with_head)).json()["intact"]
    engine: Any = api.engine
    await engine.write(
        [step_of("delete from taskforge.audit_seals where number = $1", told["seal"])]
    )
    verdict = (await platform_owner.get(VERIFICATION, params=with_head)).json()
    assert (verdict["intact"], verdict["head"]) == (False, None)
    assert (await platform_owner.get(VERIFICATION)).json()["intact"]
    assert (await platform_owner.get(VERIFICATION, params={"head": "nonsense"})).status_code == 422


async def test_heads_are_appended_to_a_file_when_they_change(
    root: httpx.AsyncClient, api: Api, tmp_path: Path
) -> None:
    file = tmp_path / "heads"
    seals = api.platform.records.audit_seals
    heads = AuditHeads(seals, Settings(audit_head_file=str(file)))
    await make_entries(root, api, "one")
    await heads.export()
    await heads.export()
    first = last_head(file)
    assert len(file.read_text().splitlines()) == 1
    await make_entries(root, api, "two")
    await heads.export()
    seal = await seals.head()
    assert seal is not None
    assert (last_head(file), first.seal < seal.number) == (Head.of(seal), True)
    assert (await heads.verify(first)).intact


async def test_without_a_file_heads_go_to_the_log(
    root: httpx.AsyncClient, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    await make_entries(root, api, "one")
    seal = await api.platform.records.audit_seals.head()
    assert seal is not None
    with caplog.at_level(logging.INFO, "taskforge.audit"):
        await AuditHeads(api.platform.records.audit_seals, Settings()).export()
    assert seal.hash.hex() in caplog.text


def test_keys_come_from_a_file_a_setting_or_the_secret(tmp_path: Path) -> None:
    one, two = "one-0123456789abcdefghijklmnopqrs", "two-0123456789abcdefghijklmnopqrs"
    secret = "secret-0123456789abcdefghijklmnopq"
    file = tmp_path / "keys"
    file.write_text(f"{two}\n{one}\n")
    plain = seal_keys(Settings().changed(audit_key=one))
    filed = seal_keys(Settings().changed(audit_key_file=str(file)))
    derived = seal_keys(Settings().changed(secret=secret))
    both = seal_keys(Settings().changed(secret=secret, audit_key=one))
    assert filed.current != plain.current == both.current != derived.current
    assert filed.knows(plain.current)
    assert both.knows(derived.current)
    assert seal_keys(Settings()).current == ""


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        (Settings(), "INFO"),
        (Settings(host="0.0.0.0"), "WARNING"),
        (Settings(secret="secret-0123456789abcdefghijklmnopq"), None),
    ],
)
def test_a_server_says_that_its_log_has_no_key(
    settings: Settings, level: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "taskforge.audit"):
        tell_unkeyed(settings)
    assert [record.levelname for record in caplog.records] == ([level] if level else [])
