"""Accounts on both engines: the same statements, the same answers, an audit entry with every change."""

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
from taskforge.storage.cabinet import Step
from taskforge.storage.directory import Directory, Exceeded, home_of
from taskforge.storage.journal import Journal
from taskforge.storage.keyring import Keyring
from taskforge.storage.sqlite.engine import SqliteEngine
from tests.engine.stores import Store
from tests.engine.world import Clock

NOTE = Note("user:ada@example.com", "test.change", 1, "127.0.0.1", "r-1")


@pytest.fixture
def directory(engine: Any) -> Directory:
    return Directory(engine)


@pytest.fixture
def keyring(engine: Any) -> Keyring:
    return Keyring(engine)


@pytest.fixture
def journal(engine: Any) -> Journal:
    return Journal(engine)


async def test_an_organization_brings_a_project_and_names_are_unique(directory: Directory) -> None:
    made = await directory.create_organization("acme", NOTE)
    assert [one.name for one in await directory.organizations()] == ["default", "acme"]
    assert [(one.organization, one.name) for one in await directory.projects()] == [(1, "default"), (made.number, "default")]
    with pytest.raises(Conflict, match="acme"):
        await directory.create_organization("acme", NOTE)
    with pytest.raises(Conflict):
        await directory.rename_organization(made, "default", NOTE)
    assert (await directory.rename_organization(made, "Acme 2", NOTE)).name == (await directory.organization(made.number)).name
    with pytest.raises(NotFound):
        await directory.organization(99)


async def test_a_reservation_says_which_quota_has_no_room(directory: Directory, clock: Clock) -> None:
    quota = Quota(enqueue_per_minute=5, payload_bytes_per_minute=100)
    minute = clock.now().replace(second=0, microsecond=0)
    turn = minute + timedelta(minutes=1)
    assert await directory.reserve(1, 2, 60, quota) == minute
    assert await directory.reserve(1, 1, 41, quota) == Exceeded("payload_bytes_per_minute", turn)
    assert await directory.reserve(1, 4, 10, quota) == Exceeded("enqueue_per_minute", turn)
    assert await directory.reserve(1, 1, 101, quota) == Exceeded("payload_bytes_per_minute", turn)
    assert await directory.reserve(1, 6, 1, quota) == Exceeded("enqueue_per_minute", turn)
    assert await directory.reserve(1, 3, 40, quota) == minute  # what was refused was not counted
    assert await directory.reserve(1, 1, 0, quota) == Exceeded("enqueue_per_minute", turn)
    assert await directory.reserve(1, 0, 1, quota) == Exceeded("payload_bytes_per_minute", turn)
    await directory.release(1, minute, 1, 20)
    assert await directory.reserve(1, 1, 20, quota) == minute
    clock.advance(60)
    assert await directory.reserve(1, 5, 100, quota) == turn
    await directory.release(1, minute, 1, 20)  # of a minute that is over
    assert await directory.reserve(1, 1, 0, quota) == Exceeded("enqueue_per_minute", turn + timedelta(minutes=1))


async def test_known_keys_are_those_that_stand_for_a_job(directory: Directory, engine: Any, clock: Clock) -> None:
    await engine.change_queue(1, CreateQueue(name="mail"))
    for key, seconds in (("k1", 10.0), ("k2", 100.0), ("k9999", 100.0)):
        await engine.insert(1, [new_job("mail", "send", idempotency_key=key, idempotency_seconds=seconds, unique_key="k3")])
    clock.advance(11)
    asked = [f"k{number}" for number in range(10_000)]  # as many as one call may have
    assert await directory.known_keys(1, asked) == {"k2", "k9999"}
    assert await directory.known_keys(2, asked) == frozenset()


async def test_projects_and_their_quotas(directory: Directory, engine: Any) -> None:
    made = await directory.create_project(1, "mail", Quota(workers=3), NOTE)
    assert made.quota == Quota(workers=3)
    changed = await directory.update_project(made, "post", Quota(enqueue_per_minute=60, payload_bytes_per_minute=10), NOTE)
    assert (await directory.projects())[-1] == changed
    with pytest.raises(Conflict):
        await directory.update_project(changed, "default", Quota(), NOTE)
    assert (await directory.projects())[-1] == changed
    with pytest.raises(Conflict):
        await directory.create_project(1, "post", Quota(), NOTE)
    await directory.reserve(changed.number, 1, 1, changed.quota)  # what was counted is no use of it
    await directory.delete_project(changed, NOTE)
    assert len(await directory.projects()) == 1
    await engine.change_queue(1, CreateQueue(name="used"))
    with pytest.raises(Conflict, match="history"):
        await directory.delete_project((await directory.projects())[0], NOTE)


async def test_a_project_is_changed_where_it_is_said_and_at_the_version_that_is_meant(directory: Directory) -> None:
    made = await directory.create_project(1, "mail", Quota(workers=3), NOTE)
    changes = [directory.update_project(made, f"m{n}", None, NOTE) for n in range(4)]
    changes += [directory.update_project(made, None, Quota(workers=10 + n), NOTE) for n in range(4)]
    assert sorted([one.version for one in await asyncio.gather(*changes)]) == list(range(2, 10))
    now = await directory.project(made.number)
    assert (now.name[0], now.name != "mail", (now.workers or 0) >= 10, now.version) == ("m", True, True, 9)
    meant = [directory.update_project(made, f"n{n}", None, NOTE, now.mark) for n in range(6)]
    answers = await asyncio.gather(*meant, return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["Project"] + ["Stale"] * 5
    with pytest.raises(Stale):
        await directory.delete_project(made, NOTE, now.mark)
    await directory.delete_project(made, NOTE, (await directory.project(made.number)).mark)
    with pytest.raises(NotFound):
        await directory.project(made.number)


async def test_the_last_owner_stays(directory: Directory) -> None:
    await directory.add_member(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    (ada,) = await directory.members(1)
    with pytest.raises(Conflict, match="owner"):
        await directory.remove_member(ada, NOTE)
    with pytest.raises(Conflict, match="owner"):
        await directory.set_role(ada, Role.VIEWER, NOTE)
    with pytest.raises(Conflict, match="already"):
        await directory.add_member(1, "ada@example.com", "Ada", Role.VIEWER, NOTE)
    await directory.add_member(1, "bob@example.com", "Bob", Role.OWNER, NOTE)
    assert (await directory.set_role(ada, Role.VIEWER, NOTE)).role is Role.VIEWER
    await directory.remove_member(ada, NOTE)
    assert [one.email for one in await directory.members(1)] == ["bob@example.com"]
    assert await directory.memberships_of(ada.user) == []


async def test_a_refusal_is_made_anew_each_time(directory: Directory) -> None:
    """One that is raised again and again would hold on to the frames of every time."""
    await directory.add_member(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    (ada,) = await directory.members(1)
    refusals = []
    for _ in range(2):
        with pytest.raises(Conflict) as caught:
            await directory.remove_member(ada, NOTE)
        refusals.append(caught.value)
    assert refusals[0] is not refusals[1]


async def test_an_invitation_is_accepted_once_and_not_after_its_time(directory: Directory, clock: Clock) -> None:
    later = clock() + timedelta(days=1)
    made = await directory.invite(1, "eve@example.com", Role.OPERATOR, b"t" * 32, later, NOTE)
    assert await directory.invitations(1) == [made]
    assert await directory.invitation(b"x" * 32) is None
    found = await directory.invitation(b"t" * 32)
    assert found == made
    await directory.accept(found, "Eve", "hash", NOTE)
    with pytest.raises(NotFound):
        await directory.accept(found, "Eve", "hash", NOTE)
    user = await directory.user_named("eve@example.com")
    assert user is not None
    assert (user.password, (await directory.memberships_of(user.id))[0].role) == ("hash", Role.OPERATOR)
    old = await directory.invite(1, "mal@example.com", Role.VIEWER, b"o" * 32, later, NOTE)
    clock.advance(86_401)
    assert await directory.invitation(b"o" * 32) is None
    with pytest.raises(NotFound):
        await directory.accept(old, "Mal", "hash", NOTE)
    await directory.withdraw(old, NOTE)
    assert await directory.invitations(1) == []


async def test_keys_are_found_rotated_and_revoked(keyring: Keyring, clock: Clock) -> None:
    permissions = frozenset({Permission.JOB_READ, Permission.JOB_WRITE})
    made = await keyring.create_key(1, 1, "key", "ci", "tfk_abc", b"1" * 32, permissions, clock() + timedelta(days=90), NOTE)
    assert await keyring.key_with(b"1" * 32) == made
    assert made.permissions <= KEY_PERMISSIONS
    fresh = await keyring.rotate_key(made, "tfk_def", b"2" * 32, clock() + timedelta(hours=1), NOTE)
    old = await keyring.key_with(b"1" * 32)
    assert old is not None
    assert old.expires_at == clock() + timedelta(hours=1)
    assert await keyring.key_with(b"2" * 32) == fresh
    await keyring.used([fresh.id])
    await keyring.revoke_key(fresh, NOTE)
    found = await keyring.key_with(b"2" * 32)
    assert found is not None
    assert (found.last_used_at, found.revoked_at) == (clock(), clock())
    with pytest.raises(Conflict, match="revoked"):
        await keyring.revoke_key(fresh, NOTE)
    with pytest.raises(Conflict, match="revoked"):
        await keyring.rotate_key(fresh, "tfk_ghi", b"3" * 32, clock(), NOTE)
    assert len(await keyring.keys(1)) == 2


async def test_a_key_is_rotated_once_while_it_works(keyring: Keyring, clock: Clock) -> None:
    """A second key made from the old one would end with it."""
    permissions = frozenset({Permission.JOB_READ})
    made = await keyring.create_key(1, 1, "key", "ci", "tfk_abc", b"1" * 32, permissions, None, NOTE)
    soon = clock() + timedelta(hours=1)
    both = [keyring.rotate_key(made, f"tfk_{mark}", mark * 32, soon, NOTE) for mark in (b"2", b"3")]
    answers = await asyncio.gather(*both, return_exceptions=True)
    (fresh,) = [one for one in answers if isinstance(one, ApiKey)]
    (refusal,) = [one for one in answers if isinstance(one, Conflict)]
    assert str(refusal) == f"key tfk_abc was rotated already; rotate key {fresh.id}, which took its place"
    old = await keyring.key(made.id)
    assert old is not None
    assert (old.expires_at, old.rotated_to) == (soon, fresh.id)
    assert (fresh.expires_at, await keyring.key(fresh.id)) == (None, fresh)
    with pytest.raises(Conflict, match="rotated already"):
        await keyring.rotate_key(old, "tfk_ghi", b"4" * 32, soon, NOTE)
    brief = await keyring.create_key(1, 1, "key", "brief", "tfk_jkl", b"5" * 32, permissions, clock() + timedelta(minutes=1), NOTE)
    clock.advance(60)
    with pytest.raises(Conflict, match=r"tfk_jkl expired at .*; create a new one"):
        await keyring.rotate_key(brief, "tfk_mno", b"6" * 32, soon, NOTE)
    assert len(await keyring.keys(1)) == 3


async def test_a_token_works_once_and_a_stolen_refresh_token_ends_its_family(
    directory: Directory, keyring: Keyring, clock: Clock
) -> None:
    user = await directory.add_member(1, "ada@example.com", "Ada", Role.OWNER, NOTE)
    first = await keyring.issue("refresh", b"a" * 32, user.id, 1, 60)
    assert await keyring.token("refresh", b"a" * 32) == first
    assert await keyring.token("session", b"a" * 32) is None
    assert await keyring.use("refresh", b"a" * 32) is not None
    await keyring.issue("refresh", b"b" * 32, user.id, 1, 60, family=first.family)
    assert await keyring.use("refresh", b"a" * 32) is None
    assert await keyring.token("refresh", b"b" * 32) is None
    await keyring.issue("session", b"c" * 32, user.id, 1, 60)
    clock.advance(61)
    assert await keyring.token("session", b"c" * 32) is None
    await keyring.issue("session", b"d" * 32, user.id, 1, 60)
    await directory.set_password(user, "new hash", NOTE)
    assert await keyring.token("session", b"d" * 32) is None
    changed = await directory.user(user.id)
    assert changed is not None
    assert (changed.password, changed.epoch) == ("new hash", user.epoch + 1)


async def test_tries_are_counted_within_a_window(keyring: Keyring, clock: Clock) -> None:
    assert [await keyring.tries("login:ada", 60) for _ in range(3)] == [0, 1, 2]
    clock.advance(61)
    assert await keyring.tries("login:ada", 60) == 0
    await keyring.forgive("login:ada")
    assert await keyring.tries("login:ada", 60) == 0


async def test_a_shared_secret_is_made_by_the_first(keyring: Keyring) -> None:
    assert await keyring.secret("signing", b"one") == b"one"
    assert await keyring.secret("signing", b"two") == b"one"
    assert await keyring.claim_secret("begun", b"1")
    assert not await keyring.claim_secret("begun", b"1")


async def _some_entries(directory: Directory, journal: Journal, count: int) -> None:
    for index in range(count):
        await directory.create_project(1, f"p{index}", Quota(), NOTE)
    assert await journal.seal() == count


async def test_every_change_leaves_one_entry_and_a_refused_one_none(directory: Directory, journal: Journal) -> None:
    await directory.create_project(1, "mail", Quota(workers=1), NOTE)
    with pytest.raises(Conflict):
        await directory.create_project(1, "mail", Quota(), NOTE)
    (entry,) = await journal.entries(1, before=None, limit=10)
    assert (entry.actor, entry.action, entry.origin, entry.request) == (NOTE.actor, NOTE.action, NOTE.origin, NOTE.request)
    assert entry.target.startswith("project mail (")
    assert entry.after is not None
    assert b'"workers":1' in bytes(entry.after)
    assert await journal.entries(2, before=None, limit=10) == []
    assert await journal.entries(1, before=entry.number, limit=10) == []
    assert await journal.entries(1, before=None, limit=10, action="other") == []
    assert await journal.entries(1, before=None, limit=10, actor=NOTE.actor, action=NOTE.action) == [entry]


async def test_an_intact_chain_is_found_intact(directory: Directory, journal: Journal) -> None:
    await _some_entries(directory, journal, 3)
    first = await journal.verify()
    assert (first.intact, first.seals, first.entries) == (True, 1, 3)
    assert await journal.seal() == 0
    await directory.create_project(1, "more", Quota(), NOTE)
    assert await journal.seal() == 1
    second = await journal.verify()
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
        "update taskforge.audit_seals set pruned = true, digest = hash where number = 1",
    ],
)
async def test_tampering_shows(directory: Directory, journal: Journal, engine: Any, clock: Clock, tampering: str) -> None:
    await _some_entries(directory, journal, 3)
    await directory.create_project(1, "more", Quota(), NOTE)
    await journal.seal()
    if tampering == "SLIP IN":  # a number before the others is for the engine to give, or not
        columns = ("number, xact", "-5, xact") if isinstance(engine, SqliteEngine) else ("xact", "xact")
        tampering = f"""insert into taskforge.audit ({columns[0]}, at, actor, action, target)
            select {columns[1]}, $1, 'x', 'y', 'z' from taskforge.audit where number = 1"""
    values = (clock() + timedelta(days=1),) if "$1" in tampering else ()
    await engine.write([Step(tampering, values)])
    verdict = await journal.verify()
    assert not verdict.intact
    assert verdict.problem


async def test_old_entries_go_and_the_chain_stays(directory: Directory, journal: Journal, clock: Clock) -> None:
    await _some_entries(directory, journal, 3)
    clock.advance(100 * 86_400)
    await directory.create_project(1, "new", Quota(), NOTE)
    await journal.seal()
    assert await journal.prune(90) == 3
    verdict = await journal.verify()
    assert (verdict.intact, verdict.seals, verdict.entries) == (True, 2, 1)
    assert len(await journal.entries(1, before=None, limit=10)) == 1
    assert await journal.prune(90) == 0


async def test_another_process_sees_the_same(directory: Directory, other: Any, store: Store) -> None:
    await directory.create_project(1, "mail", Quota(), NOTE)
    assert [one.name for one in await Directory(other).projects()] == ["default", "mail"]


async def test_a_home_is_found_while_organizations_are_made(
    directory: Directory, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = await directory.create_project(1, "mail", Quota(), NOTE)
    organizations = Directory.organizations

    async def then_another(self: Directory) -> list[Organization]:
        found = await organizations(self)
        await directory.create_organization("acme", NOTE)
        return found

    monkeypatch.setattr(Directory, "organizations", then_another)
    assert await home_of(engine, "mail") == mail.number
