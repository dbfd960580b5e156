"""S5, F11: whoever guesses passwords or keys gets few tries, and learns nothing from the answers
or from their time."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

import httpx
import pytest

from taskforge.domain.access import Role, Unauthenticated
from taskforge.operations.access import accounts, secret
from taskforge.operations.access.accounts import Accounts, Throttled
from taskforge.operations.access.passwords import Passwords
from taskforge.storage.records.throttles import Throttles
from tests.api.conftest import SETUP, Api

PASSWORD = "correct horse battery staple"
LOGINS = ("/api/v1/session", "/api/v1/tokens")


async def someone(api: Api) -> str:
    email = f"{uuid4().hex[:10]}@example.com"
    _, token = await api.platform.accounts.invite(1, email, Role.VIEWER, SETUP)
    await api.platform.accounts.accept(token, "Someone", PASSWORD, "-", lambda *_: SETUP)
    return email


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many passwords were looked at, by what was tried."""
    counted: Counter[str] = Counter()
    fits = Passwords.fits

    async def counting(self: Passwords, stored: str | None, password: str) -> bool:
        counted[password] += 1
        return await fits(self, stored, password)

    monkeypatch.setattr(Passwords, "fits", counting)
    return counted


async def guess(
    client: httpx.AsyncClient, email: str, count: int, per_second: float
) -> list[httpx.Response]:
    async def one(number: int) -> httpx.Response:
        await asyncio.sleep(number / per_second)
        return await client.post(
            LOGINS[number % 2], json={"email": email, "password": f"guess {number}"}
        )

    return list(await asyncio.gather(*(one(number) for number in range(count))))


async def test_a_guesser_gets_five_tries_a_minute(
    api: Api, checked: Counter[str], figure: Callable[[str], None]
) -> None:
    victim, other, client = await someone(api), await someone(api), api.client()
    answers = await guess(client, victim, 100, 50)
    statuses = Counter(one.status_code for one in answers)
    looked_at = sum(checked.values())
    assert set(statuses) == {401, 429}
    assert looked_at == statuses[401] <= accounts.TRIES_OF_ACCOUNT
    for one in answers:
        if one.status_code == 429:
            assert 0 < int(one.headers["retry-after"]) <= accounts.TRIES_WINDOW_SECONDS
    right = await client.post("/api/v1/session", json={"email": victim, "password": PASSWORD})
    assert (right.status_code, checked[PASSWORD]) == (429, 0), (
        "the right password is not even looked at"
    )
    at_once = await guess(client, await someone(api), 60, 1e9)
    assert Counter(one.status_code for one in at_once)[401] <= accounts.TRIES_OF_ACCOUNT
    assert (
        await client.post("/api/v1/tokens", json={"email": other, "password": PASSWORD})
    ).status_code == 201, "of the same address"
    figure(
        f"S5 {type(api.engine).__name__}: of n={len(answers)} guesses at 50/s, {looked_at} "
        f"reached the password check"
    )


async def test_an_invitation_gives_no_more_tries(api: Api, checked: Counter[str]) -> None:
    """Anyone with an organization can invite anyone, and holds the token."""
    victim, client, stranger = await someone(api), api.client(), await api.tenant("elsewhere")
    _, token = await api.platform.accounts.invite(stranger.number, victim, Role.VIEWER, SETUP)

    async def accept(password: str) -> httpx.Response:
        body = {"token": token, "name": "Someone", "password": password}
        return await client.post("/api/v1/invitations/accept", json=body)

    login = {"email": victim, "password": PASSWORD}
    assert (await accept("not the password")).status_code == 401
    assert (await client.post("/api/v1/session", json=login)).status_code == 201, "which forgives"
    client.cookies.clear()  # a browser that logged in has a count of its own
    answers = [await accept(f"guess number {number}") for number in range(8)]
    assert [one.status_code for one in answers] == [401] * accounts.TRIES_OF_ACCOUNT + [429] * 3
    assert 0 < int(answers[-1].headers["retry-after"]) <= accounts.TRIES_WINDOW_SECONDS
    assert (await accept(PASSWORD)).status_code == 429
    assert (await client.post("/api/v1/session", json=login)).status_code == 429, (
        "both count the same tries"
    )
    assert (sum(checked.values()), checked[PASSWORD]) == (accounts.TRIES_OF_ACCOUNT + 2, 1)
    await api.platform.records.throttles.forgive(f"login:{secret.hashed(victim).hex()}")
    assert (await accept(PASSWORD)).status_code == 201


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_without_the_count_every_guess_would_be_looked_at(
    api: Api, checked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""

    async def none(*_: object) -> int:
        return 0

    monkeypatch.setattr(Throttles, "count_try", none)
    victim = await someone(api)
    await guess(api.client(), victim, 12, 50)
    assert sum(checked.values()) == 12 > accounts.TRIES_OF_ACCOUNT


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_one_address_does_not_walk_through_all_accounts(
    api: Api, checked: Counter[str]
) -> None:
    client = api.client()
    tries = [
        client.post("/api/v1/session", json={"email": f"a{n}@example.com", "password": "a guess"})
        for n in range(45)
    ]
    statuses = Counter(one.status_code for one in await asyncio.gather(*tries))
    assert statuses[401] == sum(checked.values()) == accounts.TRIES_OF_ADDRESS


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_the_answer_does_not_tell_who_exists(api: Api) -> None:
    client, known = api.client(), await someone(api)
    answers = [
        await client.post(
            "/api/v1/session",
            json={"email": email, "password": "wrong"},
            headers={"x-request-id": "same"},
        )
        for email in (known, "nobody@example.com")
    ]
    assert answers[0].content == answers[1].content
    names = [{name for name, _ in one.headers.items()} for one in answers]
    assert (answers[0].status_code, names[0]) == (401, names[1])


async def medians(api: Api, count: int) -> tuple[float, float]:
    """Seconds that a wrong password takes, for a user who exists and for one who does not, tried in
    turn."""
    known = await someone(api)
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(count):
        for place, email in enumerate((known, f"nobody{number}@example.com")):
            begun = time.perf_counter()
            with pytest.raises(Unauthenticated):
                await api.platform.accounts.check(email, "wrong", None, "-")
            taken[place].append(time.perf_counter() - begun)
    return statistics.median(taken[0]), statistics.median(taken[1])


@pytest.fixture
def unthrottled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "TRIES_OF_ACCOUNT", 10**6)
    monkeypatch.setattr(accounts, "TRIES_OF_ADDRESS", 10**6)


@pytest.mark.rotates
async def test_the_time_does_not_tell_who_exists(
    api: Api, unthrottled: None, figure: Callable[[str], None]
) -> None:
    count = 40
    for last in (False, False, True):  # a busy machine may disturb a round
        known, unknown = await medians(api, count)
        if abs(known / unknown - 1) <= 0.2 or last:
            break
    assert abs(known / unknown - 1) <= 0.2, (known, unknown)
    figure(
        f"S5 {type(api.engine).__name__}: a wrong password takes {known * 1e3:.1f} ms for a user "
        f"who exists, "
        f"{unknown * 1e3:.1f} ms for one who does not (median, n={count} each)"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_shortcut_for_unknown_users_would_tell(
    api: Api, unthrottled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: no password is computed for nobody."""
    fits = Passwords.fits

    async def hasty(self: Passwords, stored: str | None, password: str) -> bool:
        return stored is not None and await fits(self, stored, password)

    monkeypatch.setattr(Passwords, "fits", hasty)
    known, unknown = await medians(api, 10)
    assert abs(known / unknown - 1) > 0.2


async def test_keys_cannot_be_guessed(api: Api, figure: Callable[[str], None]) -> None:
    client = api.client()
    guesses = [
        secret.fresh(kind)
        for kind in (secret.API_KEY, secret.WORKER_KEY, secret.SESSION)
        for _ in range(50)
    ]
    guesses += ["tfk_", "tfk_' or 1=1 --", "x" * 5_000, "null", "e30.e30.", "*"]
    statuses: Counter[int] = Counter()
    for path in ("/api/v1/queues", "/api/v1/jobs"):
        for one in guesses:
            statuses[
                (await client.get(path, headers={"authorization": f"Bearer {one}"})).status_code
            ] += 1
            body = {"queue": "mail", "job_type": "send"}
            statuses[
                (
                    await client.post(
                        "/api/v1/jobs", json=body, headers={"authorization": f"Bearer {one}"}
                    )
                ).status_code
            ] += 1
    assert set(statuses) <= {401, 429}
    figure(
        f"S5 {type(api.engine).__name__}: n={sum(statuses.values())} guessed keys, all answered "
        f"{sorted(statuses)}"
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_throttled_account_is_let_in_after_the_window(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "TRIES_WINDOW_SECONDS", 0.5)
    victim, check = await someone(api), Accounts.check
    for _ in range(accounts.TRIES_OF_ACCOUNT):
        with pytest.raises((Unauthenticated, Throttled)):
            await check(api.platform.accounts, victim, "wrong", None, "-")
    await asyncio.sleep(0.6)
    user, _ = await check(api.platform.accounts, victim, PASSWORD, None, "-")
    assert user.email == victim


async def test_a_browser_that_logged_in_before_is_kept_out_by_no_stranger(
    api: Api, checked: Counter[str]
) -> None:
    """Five wrong passwords a minute locked an account for everybody, for as long as one liked."""
    victim, other = await someone(api), await someone(api)
    right = {"email": victim, "password": PASSWORD}
    browser = api.client()
    assert (await browser.post("/api/v1/session", json=right)).status_code == 201
    stranger = api.client()
    assert Counter(each.status_code for each in await guess(stranger, victim, 20, 50)) == Counter(
        {401: accounts.TRIES_OF_ACCOUNT, 429: 20 - accounts.TRIES_OF_ACCOUNT}
    )
    assert (await stranger.post("/api/v1/session", json=right)).status_code == 429
    browser.cookies.delete("taskforge_session")
    assert (await browser.post("/api/v1/session", json=right)).status_code == 201, "its own count"
    assert (await stranger.post("/api/v1/session", json=right)).status_code == 429, (
        "which forgives no stranger"
    )
    before = sum(checked.values())
    wrong = [
        (await browser.post("/api/v1/session", json=right | {"password": f"guess {n}"})).status_code
        for n in range(8)
    ]
    assert wrong == [401] * accounts.TRIES_OF_ACCOUNT + [429] * 3, "five tries a minute, as anyone"
    assert sum(checked.values()) == before + accounts.TRIES_OF_ACCOUNT
    # The mark of one account is nothing at another, and no one makes their own.
    await guess(stranger, other, 6, 50)
    mark = browser.cookies["taskforge_browser"]
    for value in (mark, f"{mark.partition('.')[0]}.{'0' * 64}", f"{'0' * 32}.", "x"):
        forged = api.client(cookies={"taskforge_browser": value})
        answer = await forged.post("/api/v1/session", json={"email": other, "password": PASSWORD})
        assert answer.status_code == 429
