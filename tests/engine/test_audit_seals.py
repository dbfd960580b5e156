"""S14, F5: tampering with the audit log past the server shows: by the chain, by its key, or by the
head that was exported."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from taskforge.domain.audit import Note
from taskforge.domain.audit_chain import ChainCheck, Head, Seal, SealKey, SealKeys, next_seal
from taskforge.domain.tenancy import Quota
from taskforge.storage.records.audit_seals import AuditSeals, _added
from taskforge.storage.records.kinds import RecordKinds
from tests.support.adhoc_statements import step_of
from tests.support.world import Clock

NOTE = Note("user:ada@example.com", "project.create", organization=1)
ONE, TWO = SealKey.of(b"one" * 12), SealKey.of(b"two" * 12)
KEYS = {"with a key": SealKeys([ONE]), "without a key": SealKeys()}
DAYS = 30.0


@pytest.fixture(params=list(KEYS))
def seals(request: pytest.FixtureRequest, engine: Any) -> AuditSeals:
    return AuditSeals(engine, KEYS[request.param])


async def add(engine: Any, *names: str) -> None:
    for name in names:
        await RecordKinds(engine).projects.create(1, name, Quota(), NOTE)


async def fill(engine: Any, seals: AuditSeals, clock: Clock) -> Head:
    """Seven entries under three seals, and the head that was exported."""
    for names in ("abc", "de", "fg"):
        await add(engine, *names)
        assert await seals.seal() == len(names)
        clock.advance(60)
    return await exported(seals)


async def exported(seals: AuditSeals) -> Head:
    seal = await seals.head()
    assert seal is not None
    return Head.of(seal)


async def run(engine: Any, *statements: str) -> None:
    await engine.write([step_of(text) for text in statements])


async def rechain(engine: Any, clock: Clock) -> None:
    """As someone would who has the store in hand, and not the key."""
    await run(engine, EDIT, "delete from taskforge.audit_seals")
    forger = AuditSeals(engine)
    while await forger.seal():
        clock.advance(1)


async def rechain_under_a_name(engine: Any, clock: Clock) -> None:
    """The seals say that they were made with the key."""
    await rechain(engine, clock)
    await run(engine, f"update taskforge.audit_seals set key = '{ONE.id}'")


async def forge_a_checkpoint(engine: Any, clock: Clock) -> None:
    """Behind the exported head, in the form that pruning has."""
    last = await AuditSeals(engine).head()
    assert last is not None
    forged = next_seal(SealKeys(), msgspec.structs.replace(last, key=""), [], clock(), pruned_to=2)
    await engine.write([_added(forged)])
    await run(
        engine,
        "delete from taskforge.audit where number <= 5",
        "delete from taskforge.audit_seals where number < 2",
    )


EDIT = "update taskforge.audit set actor = 'user:eve@example.com' where number = 2"
SWAPPED = """update taskforge.audit set target = (select b.target from taskforge.audit b
    where b.number = 3 - taskforge.audit.number) where number in (1, 2)"""
STATEMENTS: dict[str, tuple[str, ...]] = {
    "an entry edited": (EDIT,),
    "an entry's origin edited": ("update taskforge.audit set origin = 'x' where number = 4",),
    "an entry given to another": ("update taskforge.audit set organization = 9 where number = 4",),
    "an entry renumbered": (
        "update taskforge.audit set organization_number = 99 where number = 4",
    ),
    "an entry in the middle deleted": ("delete from taskforge.audit where number = 4",),
    "two entries swapped": (SWAPPED,),
    "the newest sealed entry deleted": ("delete from taskforge.audit where number = 7",),
    "a seal in the middle deleted": ("delete from taskforge.audit_seals where number = 2",),
    "a seal in the middle deleted with its entries": (
        "delete from taskforge.audit_seals where number = 2",
        "delete from taskforge.audit where number in (4, 5)",
    ),
    "marked as pruned and edited": (
        "update taskforge.audit_seals set pruned_to = 1",
        EDIT,
    ),
    "the newest marked as pruned and edited": (
        "update taskforge.audit_seals set pruned_to = 1 where number = 3",
        EDIT,
    ),
    "marked as pruned and deleted": (
        "update taskforge.audit_seals set pruned_to = 1 where number = 3",
        "delete from taskforge.audit where number <= 3",
    ),
    "cut at the front": (
        "delete from taskforge.audit_seals where number = 1",
        "delete from taskforge.audit where number <= 3",
    ),
    "the last seal deleted": ("delete from taskforge.audit_seals where number = 3",),
    "cut at the end": (
        "delete from taskforge.audit_seals where number = 3",
        "delete from taskforge.audit where number >= 6",
    ),
    "everything deleted": (
        "delete from taskforge.audit_seals",
        "delete from taskforge.audit",
    ),
}
FORGERIES: dict[str, Callable[[Any, Clock], Awaitable[None]]] = {
    "edited and chained anew": rechain,
    "edited and chained anew under the key's name": rechain_under_a_name,
    "a checkpoint forged, and what it tells of deleted": forge_a_checkpoint,
}


async def tamper(way: str, engine: Any, clock: Clock) -> None:
    if way in STATEMENTS:
        await run(engine, *STATEMENTS[way])
    else:
        await FORGERIES[way](engine, clock)


@pytest.mark.parametrize("way", [*STATEMENTS, *FORGERIES])
async def test_tampering_shows_with_the_last_exported_head(
    engine: Any, seals: AuditSeals, clock: Clock, way: str
) -> None:
    head = await fill(engine, seals, clock)
    assert await seals.verify(DAYS, head) == ChainCheck(
        intact=True,
        seals=3,
        entries=7,
        problem=None,
        head=str(head),
        key=seals._keys.current or None,
    )
    await tamper(way, engine, clock)
    verdict = await seals.verify(DAYS, head)
    assert (verdict.intact, verdict.head) == (False, None)
    assert verdict.problem
    # what comes behind it does not make it good
    await add(engine, "later")
    await seals.seal()
    assert not (await seals.verify(DAYS, head)).intact


@pytest.mark.parametrize("way", [*FORGERIES])
async def test_without_the_key_no_seal_can_be_forged(engine: Any, clock: Clock, way: str) -> None:
    seals = AuditSeals(engine, KEYS["with a key"])
    await fill(engine, seals, clock)
    await tamper(way, engine, clock)
    verdict = await seals.verify(DAYS)
    if way == "edited and chained anew":  # as if there had never been a key: the head tells
        assert verdict.key is None
    else:
        assert not verdict.intact


async def test_what_was_not_sealed_or_not_exported_is_not_shown(
    engine: Any, seals: AuditSeals, clock: Clock
) -> None:
    await add(engine, "a")
    await run(engine, "update taskforge.audit set actor = 'user:eve@example.com'")
    await seals.seal()
    head = await exported(seals)
    await add(engine, "b")
    await seals.seal()
    await run(
        engine,
        "delete from taskforge.audit_seals where number = 2",
        "delete from taskforge.audit where number = 2",
    )
    assert (await seals.verify(DAYS, head)).intact


# --- Keys ---


async def test_a_change_of_keys_is_sealed_by_both(engine: Any, clock: Clock) -> None:
    await fill(engine, AuditSeals(engine), clock)
    first, second = AuditSeals(engine, SealKeys([ONE])), AuditSeals(engine, SealKeys([TWO, ONE]))
    assert await first.seal() == 0  # the handover has no entries of its own
    await add(engine, "h")
    await first.seal()
    assert await second.seal() == 0
    assert await second.seal() == 0
    verdict = await second.verify(DAYS)
    assert (verdict.intact, verdict.seals, verdict.key) == (True, 6, TWO.id)
    unaware = await AuditSeals(engine, SealKeys([TWO])).verify(DAYS)
    assert unaware.problem == f"seal 4 is made with key {ONE.id}, which this server does not know"
    await run(engine, "update taskforge.audit_seals set handover = hash where number = 6")
    tampered = await second.verify(DAYS)
    assert tampered.problem == "seal 6 changes the key, and the key before did not seal that"


@pytest.mark.parametrize("keys", [(), (TWO,)], ids=["none", "another"])
async def test_a_server_without_the_key_leaves_sealing_to_those_with_it(
    engine: Any, clock: Clock, keys: tuple[SealKey, ...], caplog: pytest.LogCaptureFixture
) -> None:
    owner, stranger = AuditSeals(engine, SealKeys([ONE])), AuditSeals(engine, SealKeys(keys))
    await fill(engine, owner, clock)
    await add(engine, "h")
    clock.advance(40 * 86_400)
    with caplog.at_level(logging.ERROR):
        assert [await stranger.seal(), await stranger.seal(), await stranger.prune(DAYS)] == [0] * 3
    assert len(caplog.records) == 1
    assert ONE.id in caplog.text
    assert await owner.seal() == 1
    assert (await owner.verify(DAYS)).intact


# --- Pruning ---


async def test_a_pruned_prefix_leaves_a_checkpoint(
    engine: Any, seals: AuditSeals, clock: Clock
) -> None:
    early = await fill(engine, seals, clock)
    clock.advance(40 * 86_400)
    await add(engine, "h")
    await seals.seal()
    assert await seals.prune(DAYS) == 7
    assert await seals.prune(DAYS) == 0
    kept: list[Seal] = await seals.seals_behind(0)
    assert [(seal.number, seal.pruned_to) for seal in kept] == [(3, 0), (4, 0), (5, 3)]
    verdict = await seals.verify(DAYS, early)
    assert (verdict.intact, verdict.entries, verdict.checkpoint) == (True, 1, 3)
    older = await seals.verify(DAYS, Head(2, "0" * 64))
    assert "the oldest that is kept is 3" in str(older.problem)


@pytest.mark.parametrize(
    "tampering",
    [
        "delete from taskforge.audit_seals where number = 3",
        "delete from taskforge.audit_seals where number <= 4",
        "update taskforge.audit_seals set last_number = last_number - 1 where number = 3",
        "update taskforge.audit_seals set pruned_to = 4 where number = 5",
        "update taskforge.audit_seals set pruned_to = 0 where number = 5",
        "update taskforge.audit set xact = -1",  # among what was pruned
    ],
)
async def test_tampering_with_a_pruned_log_shows(
    engine: Any, seals: AuditSeals, clock: Clock, tampering: str
) -> None:
    await fill(engine, seals, clock)
    clock.advance(40 * 86_400)
    await add(engine, "h")
    await seals.seal()
    await seals.prune(DAYS)
    await run(engine, tampering)
    assert not (await seals.verify(DAYS)).intact


async def test_a_checkpoint_without_a_key_must_be_old_enough(engine: Any, clock: Clock) -> None:
    seals = AuditSeals(engine)
    await fill(engine, seals, clock)
    await seals.prune(0)
    verdict = await seals.verify(DAYS)
    assert verdict.problem == "seal 3 is marked as pruned, and is younger than what is kept"
    assert (await seals.verify(0)).intact


# --- Numbers ---


async def test_organizations_have_numbers_of_their_own(engine: Any) -> None:
    records = RecordKinds(engine)
    other = await records.organizations.create("acme", NOTE)
    await add(engine, "a", "b")
    theirs = msgspec.structs.replace(NOTE, organization=other.number)
    await records.projects.create(other.number, "x", Quota(), theirs)
    await add(engine, "c")
    await records.projects.create(other.number, "y", Quota(), theirs)

    async def numbers(organization: int) -> list[int | None]:
        found = await records.audit_log.entries(organization, before=None, limit=10)
        return [entry.organization_number for entry in found]

    assert (await numbers(1), await numbers(other.number)) == ([4, 3, 2, 1], [2, 1])
    rest = await records.audit_log.entries(1, before=3, limit=10)
    assert [entry.organization_number for entry in rest] == [2, 1]
