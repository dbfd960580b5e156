"""Accounts on both engines: the same statements, the same answers, an audit entry with every
change."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from taskforge.domain.access import KEY_PERMISSIONS, Permission, Role
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound, Stale
from taskforge.domain.job import new_job
from taskforge.domain.queue import CreateQueue
from taskforge.domain.tenancy import ApiKey, Organization, Quota
from taskforge.storage.records.kinds import RecordKinds
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.projects import find_home
from taskforge.storage.records.quota_usage import Exceeded
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.support.adhoc_statements import step_of
from tests.support.stores import Store
from tests.support.world import Clock

NOTE = Note("user:ada@example.com", "test.change", 1, "127.0.0.1", "r-1")


@pytest.fixture
def records(engine: Any) -> RecordKinds:
    return RecordKinds(engine)


async def test_an_organization_brings_a_project_and_names_are_unique(records: RecordKinds) -> None:
    made = await records.organizations.create("acme", NOTE)
    assert [one.name for one in await records.organizations.all()] == ["default", "acme"]
    assert [(one.organization, one.name) for one in await records.projects.all()] == [
        (1, "default"),
        (made.number, "default"),
    ]
    with pytest.raises(Conflict, match="acme"):
        await records.organizations.create("acme", NOTE)
    with pytest.raises(Conflict):
        await records.organizations.rename(made, "default", NOTE)
    assert (await records.organizations.rename(made, "Acme 2", NOTE)).name == (
        await records.organizations.get(made.number)
    ).name
    with pytest.raises(NotFound):
        await records.organizations.get(99)


async def test_a_reservation_says_which_quota_has_no_room(
    records: RecordKinds, clock: Clock
) -> None:
    quota = Quota(enqueue_per_minute=5, payload_bytes_per_minute=100)
    minute = clock.now().replace(second=0, microsecond=0)
    turn = minute + timedelta(minutes=1)
    assert await records.quota_usage.reserve(1, 2, 60, quota) == minute
    assert await records.quota_usage.reserve(1, 1, 41, quota) == Exceeded(
        "payload_bytes_per_minute", turn
    )
    assert await records.quota_usage.reserve(1, 4, 10, quota) == Exceeded(
        "enqueue_per_minute", turn
    )
    assert await records.quota_usage.reserve(1, 1, 101, quota) == Exceeded(
        "payload_bytes_per_minute", turn
    )
    assert await records.quota_usage.reserve(1, 6, 1, quota) == Exceeded("enqueue_per_minute", turn)
    assert (
        await records.quota_usage.reserve(1, 3, 40, quota) == minute
    )  # what was refused was not counted
    assert await records.quota_usage.reserve(1, 1, 0, quota) == Exceeded("enqueue_per_minute", turn)
    assert await records.quota_usage.reserve(1, 0, 1, quota) == Exceeded(
        "payload_bytes_per_minute", turn
    )
    await records.quota_usage.release(1, minute, 1, 20)
    assert await records.quota_usage.reserve(1, 1, 20, quota) == minute
    clock.advance(60)
    assert await records.quota_usage.reserve(1, 5, 100, quota) == turn
    await records.quota_usage.release(1, minute, 1, 20)  # of a minute that is over
    assert await records.quota_usage.reserve(1, 1, 0, quota) == Exceeded(
        "enqueue_per_minute", turn + timedelta(minutes=1)
    )


async def test_known_keys_are_those_that_stand_for_a_job(
    records: RecordKinds, engine: Any, clock: Clock
) -> None:
    await engine.change_queue(1, CreateQueue(name="mail"))
    for key, seconds in (("k1", 10.0), ("k2", 100.0), ("k9999", 100.0)):
        await engine.insert(
            1,
            [
                new_job(
                    "mail",
                    "send",
                    idempotency_key=key,
                    idempotency_seconds=seconds,
                    unique_key="k3",
                )
            ],
        )
    clock.advance(11)
    asked = [f"k{number}" for number in range(10_000)]  # as many as one call may have
    assert await records.quota_usage.known_keys(1, asked) == {"k2", "k9999"}
    assert await records.quota_usage.known_keys(2, asked) == frozenset()


async def test_projects_and_their_quotas(records: RecordKinds, engine: Any) -> None:
    made = await records.projects.create(1, "mail", Quota(workers=3), NOTE)
    assert made.quota == Quota(workers=3)
    changed = await records.projects.update(
        made, "post", Quota(enqueue_per_minute=60, payload_bytes_per_minute=10), NOTE
    )
    assert (await records.projects.all())[-1] == changed
    with pytest.raises(Conflict):
        await records.projects.update(changed, "default", Quota(), NOTE)
    assert (await records.projects.all())[-1] == changed
    with pytest.raises(Conflict):
        await records.projects.create(1, "post", Quota(), NOTE)
    await records.quota_usage.reserve(
        changed.number, 1, 1, changed.quota
    )  # what was counted is no use of it
    await records.projects.delete(changed, NOTE)
    assert len(await records.projects.all()) == 1
    await engine.change_queue(1, CreateQueue(name="used"))
    with pytest.raises(Conflict, match="history"):
        await records.projects.delete((await records.projects.all())[0], NOTE)


async def test_a_project_is_changed_where_it_is_said_and_at_the_version_that_is_meant(
    records: RecordKinds,
) -> None:
    made = await records.projects.create(1, "mail", Quota(workers=3), NOTE)
    changes = [records.projects.update(made, f"m{n}", None, NOTE) for n in range(4)]
    changes += [records.projects.update(made, None, Quota(workers=10 + n), NOTE) for n in range(4)]
    assert sorted([one.version for one in await asyncio.gather(*changes)]) == list(range(2, 10))
    now = await records.projects.get(made.number)
    assert (now.name[0], now.name != "mail", (now.workers or 0) >= 10, now.version) == (
        "m",
        True,
        True,
        9,
    )
    meant = [records.projects.update(made, f"n{n}", None, NOTE, now.mark) for n in range(6)]
    answers = await asyncio.gather(*meant, return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["Project"] + ["Stale"] * 5
    with pytest.raises(Stale):
        await records.projects.delete(made, NOTE, now.mark)
    await records.projects.delete(made, NOTE, (await records.projects.get(made.number)).mark)
    with pytest.raises(NotFound):
        await records.projects.get(made.number)


async def test_the_last_owner_stays(records: RecordKinds) -> None:
    await records.members.add(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    (ada,) = await records.members.of_organization(1)
    with pytest.raises(Conflict, match="owner"):
        await records.members.remove(ada, NOTE)
    with pytest.raises(Conflict, match="owner"):
        await records.members.set_role(ada, Role.VIEWER, NOTE)
    with pytest.raises(Conflict, match="already"):
        await records.members.add(1, "ada@example.com", "Ada", Role.VIEWER, NOTE)
    await records.members.add(1, "bob@example.com", "Bob", Role.OWNER, NOTE)
    assert (await records.members.set_role(ada, Role.VIEWER, NOTE)).role is Role.VIEWER
    await records.members.remove(ada, NOTE)
    assert [one.email for one in await records.members.of_organization(1)] == ["bob@example.com"]
    assert await records.members.of_user(ada.user) == []


async def test_a_refusal_is_made_anew_each_time(records: RecordKinds) -> None:
    """One that is raised again and again would hold on to the frames of every time."""
    await records.members.add(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    (ada,) = await records.members.of_organization(1)
    refusals = []
    for _ in range(2):
        with pytest.raises(Conflict) as caught:
            await records.members.remove(ada, NOTE)
        refusals.append(caught.value)
    assert refusals[0] is not refusals[1]


async def test_an_invitation_is_accepted_once_and_not_after_its_time(
    records: RecordKinds, clock: Clock
) -> None:
    later = clock() + timedelta(days=1)
    made = await records.invitations.create(
        1, "eve@example.com", Role.OPERATOR, b"t" * 32, later, NOTE
    )
    assert await records.invitations.of_organization(1) == [made]
    assert await records.invitations.with_token(b"x" * 32) is None
    found = await records.invitations.with_token(b"t" * 32)
    assert found == made
    await records.invitations.accept(found, "Eve", "hash", NOTE)
    with pytest.raises(NotFound):
        await records.invitations.accept(found, "Eve", "hash", NOTE)
    user = await records.users.with_email("eve@example.com")
    assert user is not None
    assert (user.password, (await records.members.of_user(user.id))[0].role) == (
        "hash",
        Role.OPERATOR,
    )
    old = await records.invitations.create(
        1, "mal@example.com", Role.VIEWER, b"o" * 32, later, NOTE
    )
    clock.advance(86_401)
    assert await records.invitations.with_token(b"o" * 32) is None
    with pytest.raises(NotFound):
        await records.invitations.accept(old, "Mal", "hash", NOTE)
    await records.invitations.withdraw(old, NOTE)
    assert await records.invitations.of_organization(1) == []


async def test_keys_are_found_rotated_and_revoked(records: RecordKinds, clock: Clock) -> None:
    permissions = frozenset({Permission.JOB_READ, Permission.JOB_WRITE})
    made = await records.api_keys.create(
        1, 1, "key", "ci", "tfk_abc", b"1" * 32, permissions, clock() + timedelta(days=90), NOTE
    )
    assert await records.api_keys.with_secret(b"1" * 32) == made
    assert made.permissions <= KEY_PERMISSIONS
    fresh = await records.api_keys.rotate(
        made, "tfk_def", b"2" * 32, clock() + timedelta(hours=1), NOTE
    )
    old = await records.api_keys.with_secret(b"1" * 32)
    assert old is not None
    assert old.expires_at == clock() + timedelta(hours=1)
    assert await records.api_keys.with_secret(b"2" * 32) == fresh
    await records.api_keys.mark_used([fresh.id])
    await records.api_keys.revoke(fresh, NOTE)
    found = await records.api_keys.with_secret(b"2" * 32)
    assert found is not None
    assert (found.last_used_at, found.revoked_at) == (clock(), clock())
    with pytest.raises(Conflict, match="revoked"):
        await records.api_keys.revoke(fresh, NOTE)
    with pytest.raises(Conflict, match="revoked"):
        await records.api_keys.rotate(fresh, "tfk_ghi", b"3" * 32, clock(), NOTE)
    assert len(await records.api_keys.of_organization(1)) == 2


async def test_a_key_is_rotated_once_while_it_works(records: RecordKinds, clock: Clock) -> None:
    """A second key made from the old one would end with it."""
    permissions = frozenset({Permission.JOB_READ})
    made = await records.api_keys.create(
        1, 1, "key", "ci", "tfk_abc", b"1" * 32, permissions, None, NOTE
    )
    soon = clock() + timedelta(hours=1)
    both = [
        records.api_keys.rotate(made, f"tfk_{mark}", mark * 32, soon, NOTE) for mark in (b"2", b"3")
    ]
    answers = await asyncio.gather(*both, return_exceptions=True)
    (fresh,) = [one for one in answers if isinstance(one, ApiKey)]
    (refusal,) = [one for one in answers if isinstance(one, Conflict)]
    assert (
        str(refusal)
        == f"key tfk_abc was rotated already; rotate key {fresh.id}, which took its place"
    )
    old = await records.api_keys.get(made.id)
    assert old is not None
    assert (old.expires_at, old.rotated_to) == (soon, fresh.id)
    assert (fresh.expires_at, await records.api_keys.get(fresh.id)) == (None, fresh)
    with pytest.raises(Conflict, match="rotated already"):
        await records.api_keys.rotate(old, "tfk_ghi", b"4" * 32, soon, NOTE)
    brief = await records.api_keys.create(
        1,
        1,
        "key",
        "brief",
        "tfk_jkl",
        b"5" * 32,
        permissions,
        clock() + timedelta(minutes=1),
        NOTE,
    )
    clock.advance(60)
    with pytest.raises(Conflict, match=r"tfk_jkl expired at .*; create a new one"):
        await records.api_keys.rotate(brief, "tfk_mno", b"6" * 32, soon, NOTE)
    assert len(await records.api_keys.of_organization(1)) == 3


async def test_a_token_works_once_and_a_stolen_refresh_token_ends_its_family(
    records: RecordKinds, clock: Clock
) -> None:
    user = await records.members.add(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    first = await records.tokens.issue("refresh", b"a" * 32, user.id, 1, 60)
    assert await records.tokens.valid("refresh", b"a" * 32) == first
    assert await records.tokens.valid("session", b"a" * 32) is None
    assert await records.tokens.use("refresh", b"a" * 32) is not None
    await records.tokens.issue("refresh", b"b" * 32, user.id, 1, 60, family=first.family)
    assert await records.tokens.use("refresh", b"a" * 32) is None
    assert await records.tokens.valid("refresh", b"b" * 32) is None
    await records.tokens.issue("session", b"c" * 32, user.id, 1, 60)
    clock.advance(61)
    assert await records.tokens.valid("session", b"c" * 32) is None
    await records.tokens.issue("session", b"d" * 32, user.id, 1, 60)
    await records.users.set_password(user, "new hash", NOTE)
    assert await records.tokens.valid("session", b"d" * 32) is None
    changed = await records.users.get(user.id)
    assert changed is not None
    assert (changed.password, changed.epoch) == ("new hash", user.epoch + 1)


async def test_tries_are_counted_within_a_window(records: RecordKinds, clock: Clock) -> None:
    assert [await records.throttles.count_try("login:ada", 60) for _ in range(3)] == [0, 1, 2]
    clock.advance(61)
    assert await records.throttles.count_try("login:ada", 60) == 0
    await records.throttles.forgive("login:ada")
    assert await records.throttles.count_try("login:ada", 60) == 0


async def test_a_shared_secret_is_made_by_the_first(records: RecordKinds) -> None:
    assert await records.shared_secrets.get_or_add("signing", b"one") == b"one"
    assert await records.shared_secrets.get_or_add("signing", b"two") == b"one"
    assert await records.shared_secrets.claim("begun", b"1")
    assert not await records.shared_secrets.claim("begun", b"1")


async def _some_entries(records: RecordKinds, count: int) -> None:
    for index in range(count):
        await records.projects.create(1, f"p{index}", Quota(), NOTE)
    assert await records.audit_seals.seal() == count


async def test_every_change_leaves_one_entry_and_a_refused_one_none(records: RecordKinds) -> None:
    await records.projects.create(1, "mail", Quota(workers=1), NOTE)
    with pytest.raises(Conflict):
        await records.projects.create(1, "mail", Quota(), NOTE)
    (entry,) = await records.audit_log.entries(1, before=None, limit=10)
    assert (entry.actor, entry.action, entry.origin, entry.request) == (
        NOTE.actor,
        NOTE.action,
        NOTE.origin,
        NOTE.request,
    )
    assert entry.target.startswith("project mail (")
    assert entry.after is not None
    assert b'"workers":1' in bytes(entry.after)
    assert await records.audit_log.entries(2, before=None, limit=10) == []
    assert await records.audit_log.entries(1, before=entry.organization_number, limit=10) == []
    assert await records.audit_log.entries(1, before=None, limit=10, action="other") == []
    assert await records.audit_log.entries(
        1, before=None, limit=10, actor=NOTE.actor, action=NOTE.action
    ) == [entry]
    identifier = entry.target.split("(")[1].rstrip(")")
    for target, found in ((identifier, [entry]), ("mail", [entry]), ("ma_l", []), ("%", [])):
        look = records.audit_log.entries(1, before=None, limit=10, target=target)
        assert await look == found, target


async def test_an_intact_chain_is_found_intact(records: RecordKinds) -> None:
    await _some_entries(records, 3)
    first = await records.audit_seals.verify(90)
    assert (first.intact, first.seals, first.entries) == (True, 1, 3)
    assert await records.audit_seals.seal() == 0
    await records.projects.create(1, "more", Quota(), NOTE)
    assert await records.audit_seals.seal() == 1
    second = await records.audit_seals.verify(90)
    assert (second.intact, second.entries) == (True, 4)
    assert second.head != first.head


@pytest.mark.parametrize(
    "tampering",
    [
        "update taskforge.audit set actor = 'nobody' where number = 2",
        "update taskforge.audit set at = $1 where number = 2",
        "delete from taskforge.audit where number = 2",
        "SLIP IN",
        "delete from taskforge.audit_seals where number = 1",
        "update taskforge.audit_seals set entries = entries - 1 where number = 1",
        "update taskforge.audit_seals set pruned_to = 1 where number = 2",
    ],
)
async def test_tampering_shows(
    records: RecordKinds, engine: Any, clock: Clock, tampering: str
) -> None:
    await _some_entries(records, 3)
    await records.projects.create(1, "more", Quota(), NOTE)
    await records.audit_seals.seal()
    if tampering == "SLIP IN":  # a number before the others is for the engine to give, or not
        columns = (
            ("number, xact", "-5, xact") if isinstance(engine, SqliteEngine) else ("xact", "xact")
        )
        tampering = f"""insert into taskforge.audit ({columns[0]}, at, actor, action, target)
            select {columns[1]}, $1, 'x', 'y', 'z' from taskforge.audit where number = 1"""
    values = (clock() + timedelta(days=1),) if "$1" in tampering else ()
    await engine.write([step_of(tampering, *values)])
    verdict = await records.audit_seals.verify(90)
    assert not verdict.intact
    assert verdict.problem


async def test_old_entries_go_and_the_chain_stays(records: RecordKinds, clock: Clock) -> None:
    await _some_entries(records, 3)
    clock.advance(100 * 86_400)
    await records.projects.create(1, "new", Quota(), NOTE)
    await records.audit_seals.seal()
    assert await records.audit_seals.prune(90) == 3
    verdict = await records.audit_seals.verify(90)
    assert (verdict.intact, verdict.seals, verdict.entries) == (True, 3, 1)
    assert verdict.checkpoint == 1
    assert len(await records.audit_log.entries(1, before=None, limit=10)) == 1
    assert await records.audit_seals.prune(90) == 0


async def test_another_process_sees_the_same(
    records: RecordKinds, other: Any, store: Store
) -> None:
    await records.projects.create(1, "mail", Quota(), NOTE)
    assert [one.name for one in await RecordKinds(other).projects.all()] == ["default", "mail"]


async def test_a_home_is_found_while_organizations_are_made(
    records: RecordKinds, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = await records.projects.create(1, "mail", Quota(), NOTE)
    all_of_them = Organizations.all

    async def then_another(self: Organizations) -> list[Organization]:
        found = await all_of_them(self)
        await records.organizations.create("acme", NOTE)
        return found

    monkeypatch.setattr(Organizations, "all", then_another)
    assert await find_home(engine, "mail") == mail.number
