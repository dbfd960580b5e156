"""S3: credentials that are forged, broken, over or in the wrong place, at every operation; and how
soon a revoked one ends."""

import asyncio
import base64
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import msgspec
import pytest
from joserfc.jwk import ECKey, RSAKey
from joserfc.jwt import encode

from taskforge.api.entry import caller, front
from taskforge.api.entry.caller import PUBLIC
from taskforge.domain.access import Role
from taskforge.domain.tenancy import User
from taskforge.operations.access import gatekeeper
from taskforge.operations.access.access_tokens import AccessTokens, Claims
from taskforge.operations.access.accounts import IssuedTokens
from taskforge.storage.records.api_keys import ApiKeys
from taskforge.storage.records.tokens import Tokens
from tests.api.marked_tenant import EVERYTHING, PASSWORD, answer
from tests.api.operations import Operation, operations
from tests.support.line import Headers, Line
from tests.support.serving import SETUP, Api

LEAST = 60
MOST_SECONDS = 5.0


class Account(msgspec.Struct, kw_only=True):
    """A user whose credentials are good, and what their token says."""

    user: User
    grant: IssuedTokens
    session: str
    csrf: str
    client: Any
    claims: dict[str, Any]
    key: bytes

    @property
    def token(self) -> str:
        return self.grant.access_token

    def signed(
        self,
        header: dict[str, Any] | None = None,
        key: bytes | None = None,
        hash_: str = "sha256",
        **claims: Any,
    ) -> str:
        """A token like the good one but for this; a claim of `...` is left out."""
        said = {
            name: value for name, value in {**self.claims, **claims}.items() if value is not ...
        }
        text = f"{_coded({'alg': 'HS256', 'typ': 'at+jwt', **(header or {})})}.{_coded(said)}"
        seal = hmac.new(self.key if key is None else key, text.encode(), hash_)
        return f"{text}.{_b64(seal.digest())}"


async def enter(api: Api, organization: int, role: Role = Role.ADMIN) -> Account:
    email = f"{uuid4().hex[:10]}@example.com"
    accounts = api.platform.accounts
    _, invitation = await accounts.invite(organization, email, role, SETUP)
    await accounts.accept(invitation, "Someone", PASSWORD, "-", lambda *_: SETUP)
    user = await api.platform.records.users.with_email(email)
    assert user is not None
    grant = await accounts.grant(user, organization, SETUP)
    session = (await accounts.begin_session(user, organization, SETUP)).secret
    claims = json.loads(base64.urlsafe_b64decode(grant.access_token.split(".")[1] + "=="))
    key = accounts._key
    account = Account(
        user=user,
        grant=grant,
        session=session,
        csrf=accounts.csrf_token(session),
        client=api.client(grant.access_token),
        claims=claims,
        key=key,
    )
    assert account.signed() == account.token or _same(account.signed(), account.token)
    return account


def forged(good: Account) -> Iterator[tuple[str, str]]:
    """Tokens that nobody issued."""
    header, claims, signature = good.token.split(".")
    now = int(time.time())
    for alg in ("none", "None", "NONE", "nOnE", ""):
        yield f"alg {alg!r} unsigned", f"{_coded({'alg': alg, 'typ': 'at+jwt'})}.{claims}."
        yield f"alg {alg!r} signed", good.signed({"alg": alg})
    yield "no alg", f"{_coded({'typ': 'at+jwt'})}.{claims}.{signature}"
    yield "alg not a text", good.signed({"alg": ["HS256"]})
    yield "alg null", good.signed({"alg": None})
    yield "HS384", good.signed({"alg": "HS384"}, hash_="sha384")
    yield "HS512", good.signed({"alg": "HS512"}, hash_="sha512")
    yield "HS384 in name only", good.signed({"alg": "HS384"})
    rsa, elliptic = RSAKey.generate_key(2048), ECKey.generate_key("P-256")
    yield (
        "RS256 of one's own",
        encode({"alg": "RS256", "typ": "at+jwt"}, good.claims, rsa, algorithms=["RS256"]),
    )
    yield (
        "ES256 of one's own",
        encode({"alg": "ES256", "typ": "at+jwt"}, good.claims, elliptic, algorithms=["ES256"]),
    )
    yield "RS256 in name only", good.signed({"alg": "RS256"})
    yield "HS256 with a public key", good.signed(key=rsa.as_pem(private=False))
    for name, key in (
        ("another", b"k" * 32),
        ("an empty", b""),
        ("a guessed", b"secret"),
        ("a zero", bytes(32)),
    ):
        yield f"{name} key", good.signed(key=key)
    for name, value in (
        ("kid", "../../../../dev/null"),
        ("kid", "x' union select 'secret"),
        ("jku", "http://127.0.0.1:1/keys.json"),
        ("x5u", "http://127.0.0.1:1/cert.pem"),
        ("jwk", {"kty": "oct", "k": _b64(b"k" * 32)}),
        ("x5c", ["AAAA"]),
        ("crit", ["exp"]),
        ("crit", []),
        ("b64", False),
        ("zip", "DEF"),
        ("cty", "JWT"),
    ):
        yield f"{name} {value} with our key", good.signed({name: value})
        if name in ("kid", "jwk"):
            yield f"{name} {value} with another key", good.signed({name: value}, key=b"k" * 32)
    for typ in ("JWT", "jwt", "refresh", None, 1, "at+jwt "):
        yield f"typ {typ!r}", good.signed({"typ": typ})
    wrong: dict[str, list[Any]] = {
        "aud": ["other", ["taskforge-api", "other"], ["taskforge-api"], "", 1, None, ...],
        "iss": ["other", "", None, 1, ["taskforge"], ...],
        "exp": [now - 1, 0, -1, str(now + 600), None, True, float("inf"), ...],
        "iat": [now + 3_600, str(now), None, ...],
        "nbf": [now + 3_600, "x"],
        "sub": [str(uuid4()), "", "1' or '1'='1", 1, None, ...],
        "org": [str(good.claims["org"]), good.claims["org"] + 1, 1, -1, 2**70, True, None, ...],
        "epoch": [good.claims["epoch"] + 1, -1, str(good.claims["epoch"]), None, ...],
        "family": [str(uuid4()), "", None, ...],
    }
    for claim, values in wrong.items():
        for one in values:
            yield f"{claim} {'missing' if one is ... else repr(one)}", good.signed(**{claim: one})
    twice = json.dumps(good.claims)[:-1].encode() + b', "org": 1}'
    for name, text in (
        ("claims not an object", f"{header}.{_coded(['a'])}"),
        ("claims not JSON", f"{header}.{_b64(b'nonsense')}"),
        ("claims empty", f"{header}."),
        ("header not JSON", f"{_b64(b'nonsense')}.{claims}"),
        ("header an array", f"{_coded([])}.{claims}"),
        ("deep claims", f"{header}.{_b64(b'[' * 1_000 + b']' * 1_000)}"),
        ("a claim twice", f"{header}.{_b64(twice)}"),
    ):
        yield name, f"{text}.{_b64(hmac.new(good.key, text.encode(), 'sha256').digest())}"


def broken(good: Account) -> Iterator[tuple[str, str]]:
    header, claims, signature = good.token.split(".")
    yield "cut in the header", header[:10]
    yield "only the header", header
    yield "cut in the claims", f"{header}.{claims[:-5]}"
    yield "without a signature", f"{header}.{claims}"
    yield "an empty signature", f"{header}.{claims}."
    yield "cut in the signature", good.token[:-1]
    yield "cut at the front", good.token[1:]
    yield "a dot more", f"{good.token}."
    yield "a dot before", f".{good.token}"
    yield "two dots", "..".join((header, claims, signature))
    yield "four parts", f"{good.token}.{signature}"
    yield "five parts", f"{good.token}.{signature}.{signature}"
    yield "only dots", ".."
    yield "changed claims", f"{header}.{_coded({**good.claims, 'org': 1})}.{signature}"
    yield "standard base64", f"{header}.{claims}.{signature[:-4]}+/+/"
    yield "not base64", f"{header}.{claims}.!!!!"
    yield "padding inside", f"{header}.{claims}==.{signature}===="
    yield "letters of others", f"{header}.{claims}.\u00e9\u00df\u00f8"
    yield "NEL inside", f"{header}.{claims}\x85.{signature}"
    yield "twice", f"{good.token}{good.token}"
    yield "with a comma", f"{good.token}, {good.token}"
    yield "4 KiB", "a" * 5_000
    yield "32 KiB in three parts", f"{header}.{claims * 100}.{signature}"
    yield "1 MB", "a" * 1_000_000


async def wrong(
    api: Api, organization: int, good: Account, key: str
) -> AsyncIterator[tuple[str, Headers]]:
    """Each kind of bad credential as headers. Those that were good before were used then, so that a
    memory of them would show."""
    for name, token in [*forged(good), *broken(good)]:
        yield name, [_bearer(token)]
    async for name, token in _over(api, organization, good):
        yield name, [_bearer(token)]
    changed = "A" if key[-5] != "A" else "B"
    for name, text in (
        ("a key with another letter", f"{key[:-5]}{changed}{key[-4:]}"),
        ("a key's prefix", key[:12]),
        ("only the kind of a key", "tfk_"),
        ("a key as a worker's", f"tfw_{key[4:]}"),
        ("a key as a session", f"tfs_{key[4:]}"),
        ("a key in capitals", key.upper()),
        ("a key and more", f"{key}x"),
        ("a key without its kind", key[4:]),
        ("a key, percent-coded", key.replace("_", "%5f")),
        (
            "a login's token",
            await api.platform.accounts.login_secret(good.user.email, organization, SETUP),
        ),
        (
            "an invitation's token",
            (await api.platform.accounts.invite(organization, "i@example.com", Role.ADMIN, SETUP))[
                1
            ],
        ),
        ("a refresh token", good.grant.refresh_token),
        ("a CSRF token", good.csrf),
        ("a pattern", "tfk_%"),
        ("SQL", "tfk_' or '1'='1"),
    ):
        yield name, [_bearer(text)]
    basic = base64.b64encode(f"{good.user.email}:{PASSWORD}".encode())
    mine = good.token.encode()
    for name, headers in (
        ("nothing", []),
        ("an empty header", [(b"authorization", b"")]),
        ("only the scheme", [(b"authorization", b"Bearer")]),
        ("only the scheme and a space", [(b"authorization", b"Bearer ")]),
        ("no scheme", [(b"authorization", mine)]),
        ("Basic with the password", [(b"authorization", b"Basic " + basic)]),
        ("Basic with the token", [(b"authorization", b"Basic " + mine)]),
        ("Digest", [(b"authorization", b'Digest username="a"')]),
        ("Token", [(b"authorization", b"Token " + mine)]),
        ("Bearer with a colon", [(b"authorization", b"Bearer: " + mine)]),
        ("Bearer twice", [(b"authorization", b"Bearer Bearer " + mine)]),
        ("bytes beyond ASCII", [(b"authorization", b"Bearer \xff\xfe\x80" + mine)]),
        ("quoted", [(b"authorization", b'Bearer "' + mine + b'"')]),
        ("a good and a bad header", [_bearer(good.token), _bearer("bad")]),
        ("a bad and a good header", [_bearer("bad"), _bearer(good.token)]),
        ("two good headers", [_bearer(good.token), _bearer(key)]),
        ("an X-API-Key", [(b"x-api-key", key.encode())]),
        ("a proxy's header", [(b"proxy-authorization", b"Bearer " + mine)]),
        ("another header", [(b"x-forwarded-user", good.user.email.encode())]),
        ("a key as a cookie", [_cookie(key)]),
        ("a token as a cookie", [_cookie(good.token)]),
        ("a refresh token as a cookie", [_cookie(good.grant.refresh_token)]),
        ("a wrong session", [_cookie("tfs_" + "a" * 43)]),
        ("an empty session", [_cookie("")]),
        ("a session under another name", [(b"cookie", b"session=" + good.session.encode())]),
        (
            "a good session behind a bad header",
            [_bearer("bad"), _cookie(good.session), (b"x-csrf-token", good.csrf.encode())],
        ),
        (
            "a good session behind Basic",
            [(b"authorization", b"Basic " + basic), _cookie(good.session)],
        ),
    ):
        yield name, headers


async def _over(api: Api, organization: int, good: Account) -> AsyncIterator[tuple[str, str]]:
    """Credentials that were good."""
    admin = good.client
    for name in ("a revoked key", "a key that expired"):
        made = await answer(
            admin,
            "POST",
            "/api/v1/keys",
            {"name": "k", "permissions": EVERYTHING, "expires_in_days": 30},
        )
        await _used(api, made["secret"])
        if name == "a revoked key":
            await answer(admin, "DELETE", f"/api/v1/keys/{made['key']['id']}")
        else:
            await answer(
                admin, "POST", f"/api/v1/keys/{made['key']['id']}/rotate", {"overlap_seconds": 0}
            )
        yield name, made["secret"]
    over = await enter(api, organization)
    await _used(api, over.token, over.session)
    await answer(
        api.client(), "POST", "/api/v1/tokens/revoke", {"refresh_token": over.grant.refresh_token}
    )
    yield "a token whose login ended", over.token
    await api.platform.accounts.end_session(over.session, SETUP)
    yield "a session that ended", over.session
    stolen = await enter(api, organization)
    await _used(api, stolen.token)
    fresh = await answer(
        api.client(),
        "POST",
        "/api/v1/tokens/refresh",
        {"refresh_token": stolen.grant.refresh_token},
    )
    again = await api.client().post(
        "/api/v1/tokens/refresh", json={"refresh_token": stolen.grant.refresh_token}
    )
    assert again.status_code == 401
    yield "a token of a stolen login", stolen.token
    yield "a newer token of a stolen login", fresh["access_token"]
    removed = await enter(api, organization)
    await _used(api, removed.token, removed.session)
    await answer(admin, "DELETE", f"/api/v1/members/{removed.user.id}")
    yield "a token of a removed member", removed.token
    yield "a session of a removed member", removed.session
    renewed = await enter(api, organization)
    await _used(api, renewed.token, renewed.session)
    body = {"current_password": PASSWORD, "new_password": "another phrase that is long"}
    await answer(renewed.client, "POST", "/api/v1/password", body)
    yield "a token from before a new password", renewed.token
    yield "a session from before a new password", renewed.session
    reset = await enter(api, organization)
    await _used(api, reset.token)
    offer = await answer(admin, "POST", f"/api/v1/members/{reset.user.id}/password-reset")
    yield "a reset's token", offer["token"]
    await answer(
        api.client(),
        "POST",
        "/api/v1/password/reset",
        {"token": offer["token"], "new_password": PASSWORD + "!"},
    )
    yield "a token from before a reset", reset.token


async def _used(api: Api, *credentials: str) -> None:
    for one in credentials:
        await answer(api.client(one), "GET", "/api/v1/session")


async def try_all(
    line: Line, bad: list[tuple[str, Headers]], share: int = 1
) -> tuple[int, list[str]]:
    """At every operation that needs one, every bad credential or its share of them in turn; what
    was not refused."""
    found: list[str] = []
    asked = 0
    for place, operation in enumerate(guarded()):
        path = operation.at({name: str(uuid4()) for name in operation.named("path")})
        body = None if operation.body is None else b"{}"
        for name, headers in bad[place % share :: share]:
            asked += 1
            status, text = await line.ask(operation.method, path, headers, body)
            # 0: the connection was closed over a head that is too long to be read.
            if status not in (400, 401, 431) and not (status == 0 and name == "1 MB"):
                found.append(f"{name} at {operation.name}: {status} {text[:200]!r}")
    return asked, found


def guarded() -> list[Operation]:
    # Ending one's session is asked last: it would end the good one that the others are asked with.
    return sorted(
        (one for one in operations() if one.permission != PUBLIC),
        key=lambda one: one.name == "log_out",
    )


async def test_no_bad_credential_is_accepted(
    api: Api, store_url: str, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    tenant = await api.tenant("tenant")
    good, ended = (
        await enter(api, tenant.number, Role.OWNER),
        await enter(api, tenant.number, Role.OWNER),
    )
    bad = [one async for one in wrong(api, tenant.number, good, tenant.key)]
    assert len(bad) >= LEAST
    async with Line(api.address) as line:
        for name, headers in (
            ("token", [_bearer(good.token)]),
            ("key", [_bearer(tenant.key)]),
            ("own signature", [_bearer(good.signed())]),
            ("session", [_cookie(ended.session), (b"x-csrf-token", ended.csrf.encode())]),
        ):
            _, found = await try_all(line, [(name, headers)])
            assert len(found) == len(guarded()), (
                f"the good {name} is refused somewhere, so that refusals there show nothing"
            )
        asked, found = await try_all(line, bad, share=len(bad) // LEAST)
        assert not found, "\n".join(found)
        store = store_url.partition(":")[0]
        counted = (
            f"{len(bad)} bad credentials in turn, {LEAST} or more at each of "
            f"{len(guarded())} operations, n = {asked}"
        )
        figure(f"S3 {store}: {counted}: 0 accepted, 0 faults")
        for twin, (where, attribute, replaced, about) in TWINS.items():
            api.platform.forget()
            with monkeypatch.context() as patch:
                patch.setattr(where, attribute, replaced)
                _, found = await try_all(line, [one for one in bad if one[0] == about])
            assert found, twin
        figure(f"S3 {store}: {len(TWINS)} of n = {len(TWINS)} broken checks noticed")


def _unverified(tokens: AccessTokens, text: str) -> Claims:
    values = json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))
    return Claims(
        UUID(values["sub"]), values["org"], values["epoch"], UUID(values["family"]), values["exp"]
    )


async def _alive(tokens: Tokens, family: UUID) -> bool:
    return True


async def _never_over(api_keys: ApiKeys, secret: bytes) -> Any:
    key = await key_with(api_keys, secret)
    return key and msgspec.structs.replace(key, revoked_at=None, expires_at=None)


key_with = ApiKeys.with_secret
TWINS: dict[str, tuple[Any, str, Any, str]] = {
    "the signature is not checked": (AccessTokens, "read", _unverified, "another key"),
    "an unsigned token is read": (AccessTokens, "read", _unverified, "alg 'none' unsigned"),
    "a login never ends": (Tokens, "is_alive", _alive, "a token whose login ended"),
    "a key is never revoked": (ApiKeys, "with_secret", _never_over, "a revoked key"),
    "a key never expires": (ApiKeys, "with_secret", _never_over, "a key that expired"),
    "two headers are let through": (front, "refuse_ambiguous", lambda *_: None, "two good headers"),
    "anything may be a cookie": (caller, "SESSION", "", "a key as a cookie"),
}


async def test_what_is_revoked_ends_everywhere_within_seconds(
    serve: Callable[..., Awaitable[Api]],
    store_url: str,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """Two servers on one store: revoked at the one, refused by the other."""
    here, there = await serve(store_url), await serve(store_url)
    slowest = await _slowest(here, there)
    assert max(slowest.values()) <= MOST_SECONDS, slowest
    told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in slowest.items())
    figure(
        f"S3 {store_url.partition(':')[0]}: revoked at one server, refused by another, n = "
        f"{len(slowest)}: {told}"
    )
    monkeypatch.setattr(gatekeeper, "REMEMBER_SECONDS", 60.0)
    here.platform.forget()
    there.platform.forget()
    there.platform.gatekeeper._monotonic = _Skipping()
    slowest = await _slowest(here, there)
    assert min(slowest.values()) > MOST_SECONDS, (
        f"a server that remembers for a minute was not noticed: {slowest}"
    )


class _Skipping:
    """A clock that can be moved, so that nobody waits for what a broken server does not do."""

    def __init__(self) -> None:
        self.skipped = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.skipped


async def _slowest(here: Api, there: Api) -> dict[str, float]:
    """How long each kind of credential works on after its end, on the server that was not told."""
    tenant = await here.tenant(f"t{uuid4().hex[:8]}")
    admin = await enter(here, tenant.number, Role.OWNER)
    key = await answer(
        admin.client, "POST", "/api/v1/keys", {"name": "k", "permissions": ["project:read"]}
    )
    out, gone, renewed = [await enter(here, tenant.number) for _ in range(3)]
    cases: dict[str, tuple[str, Callable[[], Awaitable[Any]]]] = {
        "key": (
            key["secret"],
            lambda: answer(admin.client, "DELETE", f"/api/v1/keys/{key['key']['id']}"),
        ),
        "token": (
            out.token,
            lambda: answer(
                here.client(),
                "POST",
                "/api/v1/tokens/revoke",
                {"refresh_token": out.grant.refresh_token},
            ),
        ),
        "session": (out.session, lambda: here.platform.accounts.end_session(out.session, SETUP)),
        "member": (
            gone.token,
            lambda: answer(admin.client, "DELETE", f"/api/v1/members/{gone.user.id}"),
        ),
        "password": (
            renewed.token,
            lambda: answer(
                renewed.client,
                "POST",
                "/api/v1/password",
                {"current_password": PASSWORD, "new_password": PASSWORD + "!"},
            ),
        ),
    }

    async def measure(credential: str, end: Callable[[], Awaitable[Any]]) -> float:
        client: httpx.AsyncClient = there.client(credential)
        assert (await client.get("/api/v1/session")).status_code == 200
        await end()
        clock = there.platform.gatekeeper._monotonic
        begun = clock()
        if isinstance(clock, _Skipping):
            clock.skipped += MOST_SECONDS
        while (
            clock() - begun < MOST_SECONDS + 0.5
            and (await client.get("/api/v1/session")).status_code != 401
        ):
            await asyncio.sleep(0.05)
        return clock() - begun

    measured = await asyncio.gather(*(measure(*case) for case in cases.values()))
    return dict(zip(cases, measured, strict=True))


def _bearer(credential: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Bearer " + credential.encode("latin-1")


def _cookie(session: str) -> tuple[bytes, bytes]:
    return b"cookie", f"taskforge_session={session}".encode()


def _coded(value: Any) -> str:
    return _b64(json.dumps(value, separators=(",", ":")).encode())


def _b64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _same(one: str, other: str) -> bool:
    """Whether two tokens say the same; the order of what they say may differ."""
    parts = [
        [json.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2]]
        for token in (one, other)
    ]
    return bool(parts[0] == parts[1])
