"""Single sign-on against a real provider on this machine: whoever it vouches for gets in, and
nobody else by any token or trick."""

import asyncio
import base64
import gzip
import hmac
import json
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from taskforge.api.app import make_app
from taskforge.api.entry.caller import COOKIE, PUBLIC
from taskforge.api.routes import oidc as routes
from taskforge.client import fetch
from taskforge.domain.access import Role
from taskforge.domain.errors import Invalid, StoreUnsuitable
from taskforge.operations.access import oidc
from taskforge.operations.access.oidc import IdentityProvider
from taskforge.operations.access.oidc_attempts import ATTEMPT_SECONDS
from taskforge.settings import Settings
from taskforge.wiring import make_server
from tests.api.conftest import SETUP, Api
from tests.api.idp import ADA, CLIENT, OURS, SECRET, THEIRS, WEAK, Idp, by_us, running_idp
from tests.support.adhoc_statements import step_of
from tests.support.shell import Shell


@pytest.fixture
async def idp() -> AsyncIterator[Idp]:
    async with running_idp() as made:
        yield made


def settings_for(idp: Idp) -> dict[str, Any]:
    return {"oidc_issuer": idp.issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET}


@pytest.fixture
async def site(serve: Callable[..., Awaitable[Api]], tmp_path: Path, idp: Idp) -> Api:
    made = await serve(f"sqlite:///{tmp_path / 'oidc.db'}", **settings_for(idp))
    await made.platform.records.members.add(1, ADA, "Ada", Role.OPERATOR, SETUP)
    return made


@pytest.fixture
async def browser(site: Api) -> httpx.AsyncClient:
    return site.client()


async def to_provider(browser: httpx.AsyncClient) -> str:
    """Begin at the login page; the address on which the provider sends the browser back."""
    begun = await browser.get("/login/oidc")
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as outside:
        back = await outside.get(begun.headers["location"])
    assert back.status_code == 302
    return str(back.headers["location"])


async def through(browser: httpx.AsyncClient) -> httpx.Response:
    return await browser.get(await to_provider(browser))


async def check_outside(
    site: Api, browser: httpx.AsyncClient, answer: httpx.Response, status: int, says: str
) -> None:
    """The login page with a reason, and no session: neither in the browser nor in the store."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in answer.text
    assert says in answer.text
    assert 'href="/login/oidc"' in answer.text
    assert not [
        one for one in answer.headers.get_list("set-cookie") if one.startswith(f"{COOKIE}=")
    ]
    assert COOKIE not in browser.cookies
    assert (await browser.get("/api/v1/session")).status_code == 401
    assert await sessions(site) == 0


async def sessions(site: Api) -> int:
    return int(
        (
            await site.engine.write(
                [step_of("select count(*) from taskforge.tokens where kind = 'session'")]
            )
        )[0][0][0]
    )


# --- In ---


async def test_whoever_the_provider_vouches_for_is_in(
    serve: Callable[..., Awaitable[Api]], store_url: str, idp: Idp
) -> None:
    site = await serve(store_url, **settings_for(idp))
    await site.platform.records.members.add(1, ADA, "Ada", Role.OPERATOR, SETUP)
    browser, before = site.client(), await site.audit_count()
    page = await browser.get("/login")
    assert 'href="/login/oidc"' in page.text
    assert "Log in with single sign-on" in page.text
    begun = await browser.get("/login/oidc")
    cookie = begun.headers["set-cookie"].lower()
    for part in ("httponly", "samesite=lax", "path=/login/oidc", "max-age=600"):
        assert part in cookie
    asked = dict(parse_qsl(urlsplit(begun.headers["location"]).query))
    assert asked["redirect_uri"] == f"{site.address}/login/oidc/callback"
    # The browser holds a seed; what goes to the provider, and the verifier, cannot be read from it.
    assert not {asked["state"], asked["nonce"], asked["code_challenge"]} & set(
        cookie.replace("=", ".").split(".")
    )

    answer = await through(browser)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookies = {one.partition("=")[0]: one.lower() for one in answer.headers.get_list("set-cookie")}
    assert "httponly" in cookies[COOKIE]
    assert "samesite=lax" in cookies[COOKIE]
    assert "max-age=0" in cookies[routes.COOKIE]
    who = (await browser.get("/api/v1/session")).json()
    assert (who["label"], who["role"]) == (f"user:{ADA}", "operator")
    assert await site.audit_count() == before + 1
    noted = await site.engine.write(
        [step_of("select actor, action from taskforge.audit order by number desc limit 1")]
    )
    assert tuple(noted[0][0]) == (f"user:{ADA}", "session.create")


@pytest.mark.parametrize(
    "said",
    [
        {"email": "Ada@Example.COM"},
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "other"], "azp": CLIENT},
        {"azp": CLIENT},
        {"exp": -20},  # seconds from now: within the leeway
        {"more": {"a": [1]}},
    ],
)
async def test_what_a_provider_may_say(
    site: Api, browser: httpx.AsyncClient, idp: Idp, said: dict[str, Any]
) -> None:
    idp.claims = said | ({"exp": int(time.time()) + said["exp"]} if "exp" in said else {})
    assert (await through(browser)).status_code == 303
    assert await sessions(site) == 1


async def test_documents_are_fetched_once_and_again_when_they_are_old(
    site: Api, browser: httpx.AsyncClient, idp: Idp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        assert (await through(browser)).status_code == 303
    assert (idp.asked.count("/.well-known/openid-configuration"), idp.asked.count("/jwks")) == (
        1,
        1,
    )
    provider: Any = site.platform.provider
    provider._metadata = (provider._metadata[0] - oidc.KEPT, provider._metadata[1])
    provider._keys = (provider._keys[0] - oidc.KEPT, provider._keys[1])
    assert (await through(browser)).status_code == 303
    assert (idp.asked.count("/.well-known/openid-configuration"), idp.asked.count("/jwks")) == (
        2,
        2,
    )


async def test_other_ways_that_providers_have(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    curve = ECKey.generate_key("P-256", {"kid": "curve"})
    idp.keys = [OctKey.generate_key(256, {"kid": "one"}), WEAK, curve]
    idp.header = {"alg": "ES256", "kid": "curve", "x-own": "header" * 200}
    idp.sign = lambda header, claims: jwt.encode(header, claims, curve, registry=oidc._REGISTRY)
    idp.metadata = {
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
        "authorization_endpoint": f"{idp.issuer}/authorize?tenant=1",
    }
    begun = await browser.get("/login/oidc")
    assert begun.headers["location"].startswith(
        f"{idp.issuer}/authorize?tenant=1&response_type=code&"
    )
    assert (await through(browser)).status_code == 303
    # Without an id, the only key that there is.
    idp.header["kid"] = ...
    assert (await through(browser)).status_code == 303


async def test_a_new_key_is_asked_for_once(site: Api, browser: httpx.AsyncClient, idp: Idp) -> None:
    assert (await through(browser)).status_code == 303
    rotated = RSAKey.generate_key(2048, {"kid": "two"})
    idp.keys, idp.header = [rotated], {"kid": "two"}
    idp.sign = lambda header, claims: jwt.encode(header, claims, rotated)
    assert (await through(browser)).status_code == 303
    assert idp.asked.count("/jwks") == 2
    assert (await through(browser)).status_code == 303
    assert idp.asked.count("/jwks") == 2
    # A key that the provider never had is looked for once, not over and over.
    idp.header = {"kid": "three"}
    browser = site.client()
    answer = await through(browser)
    assert (answer.status_code, idp.asked.count("/jwks")) == (401, 3)
    # And what was signed with the key that is gone counts no more.
    idp.header, idp.sign = {"kid": "one"}, by_us
    assert (await through(browser)).status_code == 401
    assert COOKIE not in browser.cookies


# --- Tokens that are not good ---


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _plain(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return f"{_b64(json.dumps(header).encode())}.{_b64(json.dumps(claims).encode())}"


def _unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return _plain(header, claims) + "."


def _with_public_key(header: dict[str, Any], claims: dict[str, Any]) -> str:
    text = _plain(header, claims)
    return f"{text}.{_b64(hmac.new(OURS.as_pem(private=False), text.encode(), 'sha256').digest())}"


def _by_others(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return jwt.encode(header, claims, THEIRS, registry=oidc._REGISTRY)


def _altered(header: dict[str, Any], claims: dict[str, Any]) -> str:
    head, _, signature = jwt.encode(header, claims | {"email": "eve@example.com"}, OURS).split(".")
    return f"{head}.{_plain(header, claims).partition('.')[2]}.{signature}"


NOW = int(time.time())
FORGED: dict[str, dict[str, Any]] = {
    "signed by another key": {"sign": _by_others},
    "altered after it was signed": {"sign": _altered},
    "its own key in the header": {
        "sign": _by_others,
        "header": {"jwk": THEIRS.as_dict(private=False)},
    },
    "no signature": {
        "sign": lambda header, claims: jwt.encode(header, claims, OURS).rpartition(".")[0] + "."
    },
}
BAD: dict[str, dict[str, Any]] = {
    **FORGED,
    "alg none": {"header": {"alg": "none"}, "sign": _unsigned},
    "alg None": {"header": {"alg": "None"}, "sign": _unsigned},
    "no alg": {"header": {"alg": ...}, "sign": _unsigned},
    "alg none, no kid": {"header": {"alg": "none", "kid": ...}, "sign": _unsigned},
    "HS256 with the public key": {"header": {"alg": "HS256"}, "sign": _with_public_key},
    "RS512": {
        "header": {"alg": "RS512"},
        "sign": lambda h, c: jwt.encode(h, c, OURS, algorithms=["RS512"]),
    },
    "PS256": {
        "header": {"alg": "PS256"},
        "sign": lambda h, c: jwt.encode(h, c, OURS, algorithms=["PS256"]),
    },
    "a key too short": {
        "header": {"kid": "weak"},
        "sign": lambda header, claims: jwt.encode(header, claims, WEAK),
    },
    "ES256 for an RSA key": {
        "header": {"alg": "ES256"},
        "sign": lambda header, claims: _plain(header, claims) + "." + "A" * 86,
    },
    "a critical header": {
        "header": {"crit": ["x"], "x": 1},
        "sign": lambda header, claims: _unsigned(header, claims) + "AAAA",
    },
    "over": {"claims": {"exp": NOW - 3600, "iat": NOW - 4000}},
    "just over": {"claims": {"exp": NOW - 120}},
    "never over": {"claims": {"exp": ...}},
    "over, in words": {"claims": {"exp": "2999-01-01"}},
    "issued never": {"claims": {"iat": ...}},
    "issued long ago": {"claims": {"iat": NOW - 7200}},
    "issued in the future": {"claims": {"iat": NOW + 3600, "exp": NOW + 7200}},
    "not yet": {"claims": {"nbf": NOW + 3600}},
    "another nonce": {"claims": {"nonce": "x" * 64}},
    "no nonce": {"claims": {"nonce": ...}},
    "a nonce that is a list": {"claims": {"nonce": ["x"]}},
    "for another": {"claims": {"aud": "other"}},
    "for others": {"claims": {"aud": ["other", "third"]}},
    "for nobody": {"claims": {"aud": ...}},
    "for many, no azp": {"claims": {"aud": [CLIENT, "other"]}},
    "for us, given to another": {"claims": {"azp": "other"}},
    "for us, with a wild azp": {"claims": {"azp": [CLIENT]}},
    "from another": {"claims": {"iss": "https://evil.example"}},
    "from nearly us": {"claims": {"iss": "ISSUER/"}},
    "from nobody": {"claims": {"iss": ...}},
    "of nobody": {"claims": {"sub": ...}},
    "not a token": {"sign": lambda *_: "nonsense"},
    "five parts": {"sign": lambda *_: "a.b.c.d.e"},
    "not ASCII": {"sign": lambda *_: "é.é.é"},
    "a key id that is a list": {"header": {"kid": ["one"]}, "sign": _unsigned},
    "claims that are a list": {
        "sign": lambda header, _: jws.serialize_compact(header, b"[1]", OURS)
    },
    "claims that are deep": {
        "sign": lambda header, _: jws.serialize_compact(header, b"[" * 5000, OURS)
    },
    "too long": {
        "sign": lambda header, claims: jwt.encode(header, claims | {"pad": "x" * 30_000}, OURS)
    },
}


async def try_token(site: Api, browser: httpx.AsyncClient, idp: Idp, bad: dict[str, Any]) -> None:
    idp.keys = [OURS, WEAK] if bad.get("header", {}).get("kid") == "weak" else [OURS]
    idp.header = bad.get("header", {})
    issuer = {"iss": f"{idp.issuer}/"} if bad.get("claims", {}).get("iss") == "ISSUER/" else {}
    idp.claims = bad.get("claims", {}) | issuer
    idp.sign = bad.get("sign", by_us)
    await check_outside(site, browser, await through(browser), 401, "cannot be trusted")


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_token_lets_nobody_in(
    site: Api, browser: httpx.AsyncClient, idp: Idp, name: str
) -> None:
    await try_token(site, browser, idp, BAD[name])


@pytest.mark.parametrize("name", FORGED)
async def test_twin_without_the_signature_check_forged_tokens_get_in(
    site: Api, browser: httpx.AsyncClient, idp: Idp, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def unchecked(provider: IdentityProvider, token: str, key: Any) -> Any:
        return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))

    monkeypatch.setattr(IdentityProvider, "_signed", unchecked)
    with pytest.raises(AssertionError):
        await try_token(site, browser, idp, FORGED[name])
    assert await sessions(site) == 1


@pytest.mark.parametrize(
    "name",
    ["another nonce", "for another", "from another", "over", "issued long ago", "for many, no azp"],
)
async def test_twin_without_the_claims_check_they_get_in(
    site: Api, browser: httpx.AsyncClient, idp: Idp, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(IdentityProvider, "_check_claims", lambda *_: None)
    with pytest.raises(AssertionError):
        await try_token(site, browser, idp, BAD[name])
    assert await sessions(site) == 1


# --- People who are not to be let in ---


@pytest.mark.parametrize("said", [False, "true", 1, None, ...])
async def test_an_address_that_is_not_verified(
    site: Api, browser: httpx.AsyncClient, idp: Idp, said: Any
) -> None:
    idp.claims = {"email_verified": said}
    await check_outside(site, browser, await through(browser), 403, "not verified your email")


@pytest.mark.parametrize("said", ["", ..., None, ["ada@example.com"], 7])
async def test_no_address(site: Api, browser: httpx.AsyncClient, idp: Idp, said: Any) -> None:
    idp.claims = {"email": said}
    await check_outside(site, browser, await through(browser), 403, "does not tell your email")


@pytest.mark.parametrize(
    "email",
    [
        "eve@example.com",
        "invited@example.com",
        "k\u212a@example.com",  # the Kelvin sign, of which lower case is a k
        "ada@example.com\0",
        "ada@example.com\n",
        "\ud800@example.com",
        "a" * 10_000,
        "' or 1=1 --@example.com",
        "<script>alert(1)</script>@example.com",
    ],
)
async def test_nobody_gets_in_uninvited(
    site: Api, browser: httpx.AsyncClient, idp: Idp, email: str
) -> None:
    await site.platform.records.members.add(1, "kk@example.com", "Kay", Role.OWNER, SETUP)
    # and has not accepted yet
    await site.platform.accounts.invite(1, "invited@example.com", Role.VIEWER, SETUP)
    idp.claims = {"email": email}
    answer = await through(browser)
    await check_outside(site, browser, answer, 403, "ask an admin to invite you")
    assert "<script" not in answer.text
    assert await site.platform.records.users.with_email("eve@example.com") is None


async def test_a_disabled_member_and_one_who_was_removed_stay_outside(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    await site.engine.write(
        [step_of("update taskforge.users set disabled_at = $1", await site.engine.now())]
    )
    await check_outside(site, browser, await through(browser), 403, "ask an admin to invite you")
    await site.engine.write([step_of("update taskforge.users set disabled_at = null")])
    await site.engine.write([step_of("delete from taskforge.memberships")])
    await check_outside(site, browser, await through(browser), 403, "ask an admin to invite you")


# --- The way back ---


async def test_the_state_must_be_the_browsers_own(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    mine = await to_provider(browser)
    another = site.client()
    others = await to_provider(another)
    # Someone is led to a login that another began: without the cookie, or with one of their own.
    await check_outside(
        site, stranger := site.client(), await stranger.get(others), 400, "not begun here"
    )
    await check_outside(site, browser, await browser.get(others), 400, "not begun here")
    code = dict(parse_qsl(urlsplit(mine).query))["code"]
    for query in (
        {"code": code},
        {"code": code, "state": ""},
        {"code": code, "state": "é"},
        {},
        {"error": "access_denied"},
    ):
        browser = site.client()
        await to_provider(browser)
        await check_outside(
            site,
            browser,
            await browser.get("/login/oidc/callback", params=query),
            400,
            "not begun here",
        )
    browser = site.client()
    doubled = await to_provider(browser)
    await check_outside(
        site, browser, await browser.get(doubled + "&state=x"), 400, "not begun here"
    )
    assert (await another.get(others)).status_code == 303


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a.9999999999.x",
        "x" * 3000,
        "SEED.9999999999.MAC",
        "SEED.UNTIL.MAC0",
    ],
)
async def test_a_cookie_that_we_did_not_sign(
    site: Api, browser: httpx.AsyncClient, idp: Idp, cookie: str
) -> None:
    back = await to_provider(browser)
    seed, until, mac = browser.cookies[routes.COOKIE].strip('"').split(".")
    written = cookie.replace("SEED", seed).replace("UNTIL", until).replace("MAC", mac)
    client = site.client(cookies={routes.COOKIE: written})
    await check_outside(site, client, await client.get(back), 400, "not begun here")


async def test_an_attempt_of_long_ago_is_over(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    attempts: Any = site.platform.provider.attempts  # type: ignore[union-attr]
    now = attempts._clock
    back = await to_provider(browser)
    attempts._clock = lambda: now() + timedelta(seconds=ATTEMPT_SECONDS)
    await check_outside(site, browser, await browser.get(back), 400, "took too long")


async def test_an_answer_is_followed_once(
    serve: Callable[..., Awaitable[Api]], store_url: str, idp: Idp
) -> None:
    """Also where the provider would take its code again, and on another server of the same
    store."""
    site = await serve(store_url, public_url="https://jobs.example.com", **settings_for(idp))
    second = await serve(store_url, public_url="https://jobs.example.com", **settings_for(idp))
    await site.platform.records.members.add(1, ADA, "Ada", Role.OPERATOR, SETUP)
    idp.codes_last = True
    addresses = [
        f"http://127.0.0.1:{one.made.server._socket.getsockname()[1]}" for one in (site, second)
    ]  # type: ignore[union-attr]
    async with httpx.AsyncClient() as client:
        begun = await client.get(f"{addresses[0]}/login/oidc")
        assert "secure" in begun.headers["set-cookie"].lower()
        headers = {"cookie": begun.headers["set-cookie"].partition(";")[0]}
        back = (await client.get(begun.headers["location"])).headers["location"]
        assert back.startswith("https://jobs.example.com/login/oidc/callback?")
        target = "/login/oidc/callback?" + urlsplit(back).query
        first = await client.get(addresses[0] + target, headers=headers)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "secure" in first.headers["set-cookie"].lower()
        for address in addresses:
            again = await client.get(address + target, headers=headers)
            assert again.status_code == 400
            assert "followed already" in again.text
            assert not [
                one for one in again.headers.get_list("set-cookie") if one.startswith(f"{COOKIE}=")
            ]
    assert await sessions(site) == 1


async def test_many_at_once_with_one_answer_begin_one_session(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    idp.codes_last = True
    back = await to_provider(browser)
    clients = [
        site.client(cookies={routes.COOKIE: browser.cookies[routes.COOKIE]}) for _ in range(8)
    ]
    answers = await asyncio.gather(*(client.get(back) for client in clients))
    assert sorted(one.status_code for one in answers) == [303] + [400] * 7
    assert await sessions(site) == 1


@pytest.mark.parametrize("kept", [{}, {"code": ""}, {"code": ["a", "b"]}, {"code": "x" * 20_000}])
async def test_no_code(
    site: Api, browser: httpx.AsyncClient, idp: Idp, kept: dict[str, Any]
) -> None:
    state = dict(parse_qsl(urlsplit(await to_provider(browser)).query))["state"]
    answer = await browser.get("/login/oidc/callback", params={"state": state, **kept})
    await check_outside(site, browser, answer, 400, "no code")
    assert "/token" not in idp.asked


async def test_the_provider_says_no(site: Api, browser: httpx.AsyncClient, idp: Idp) -> None:
    state = dict(parse_qsl(urlsplit(await to_provider(browser)).query))["state"]
    told = {
        "state": state,
        "error": "access_denied",
        "error_description": "<script>call 555-1234</script>",
    }
    answer = await browser.get("/login/oidc/callback", params=told)
    await check_outside(site, browser, answer, 401, "did not log you in")
    assert "555" not in answer.text
    state = dict(parse_qsl(urlsplit(await to_provider(browser)).query))["state"]
    answer = await browser.get(
        "/login/oidc/callback", params={"state": state, "code": "of someone else"}
    )
    await check_outside(site, browser, answer, 401, "did not confirm")


@pytest.mark.parametrize("name", ["next", "return_to", "redirect_uri", "url"])
async def test_nothing_in_the_address_says_where_to_go(
    site: Api, browser: httpx.AsyncClient, idp: Idp, name: str
) -> None:
    begun = await browser.get(
        "/login/oidc", params={name: "https://evil.example"}, headers={"host": "evil.example"}
    )
    assert begun.headers["location"].startswith(f"{idp.issuer}/authorize?")
    assert "evil" not in begun.headers["location"]
    back = await to_provider(browser)
    answer = await browser.get(
        f"{back}&{name}=https://evil.example", headers={"x-forwarded-host": "evil.example"}
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


# --- A provider that is away, or not what it should be ---

HUGE = b'{"pad": "' + b"x" * (fetch.MOST_BYTES + 1) + b'"}'
BROKEN: dict[str, tuple[int, bytes]] = {
    "huge": (200, HUGE),
    "failing": (500, b"{}"),
    "moved": (302, b"http://127.0.0.1:1/"),
    "not JSON": (200, b"<html>"),
    "not an object": (200, b"[]"),
    "not UTF-8": (200, b'{"issuer": "\xff"}'),
    "deep": (200, b"[" * 100_000),
    "empty": (200, b""),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_provider_is_away(
    site: Api, browser: httpx.AsyncClient, idp: Idp, name: str
) -> None:
    idp.instead = {"/.well-known/openid-configuration": BROKEN[name]}
    answer = await browser.get("/login/oidc")
    await check_outside(site, browser, answer, 503, "try again in a moment")
    assert answer.headers["retry-after"]
    for path in ("/token", "/jwks"):
        idp.instead = {}
        back = await to_provider(browser)
        idp.instead = {path: BROKEN[name]}
        await check_outside(site, browser, await browser.get(back), 503, "try again in a moment")
    idp.instead = {}
    assert (await through(browser)).status_code == 303


async def test_what_is_compressed_is_not_unpacked(
    site: Api, browser: httpx.AsyncClient, idp: Idp
) -> None:
    idp.instead, idp.packed = (
        {"/.well-known/openid-configuration": (200, gzip.compress(b" " * 50_000_000))},
        True,
    )
    await check_outside(
        site, browser, await browser.get("/login/oidc"), 503, "try again in a moment"
    )


async def test_a_provider_that_is_gone_or_silent(
    serve: Callable[..., Awaitable[Api]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "ANSWER_SECONDS", 0.3)
    for number, is_open in enumerate((False, True)):
        listening = socket.create_server(("127.0.0.1", 0))  # takes connections, and says nothing
        given = {
            "oidc_issuer": f"http://127.0.0.1:{listening.getsockname()[1]}",
            "oidc_client_id": "a",
            "oidc_client_secret": "b",
        }
        if not is_open:
            listening.close()
        site = await serve(f"sqlite:///{tmp_path / f'{number}.db'}", **given)
        browser = site.client()
        answers = await asyncio.gather(*(browser.get("/login/oidc") for _ in range(20)))
        for answer in answers:
            await check_outside(site, browser, answer, 503, "try again in a moment")
        listening.close()


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://evil.example"},
        {"issuer": "ISSUER/"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/"},
        {"authorization_endpoint": "https://evil.example/\r\nset-cookie: a=b"},
        {"authorization_endpoint": "https://["},
        {"authorization_endpoint": "/authorize"},
        {"authorization_endpoint": "https://a.example/#x"},
        {"token_endpoint": "http://169.254.169.254/latest"},
        {"token_endpoint": "file:///etc/passwd"},
        {"jwks_uri": "http://evil.example/jwks"},
        {"jwks_uri": 7},
    ],
)
async def test_a_document_that_leads_astray(
    site: Api, browser: httpx.AsyncClient, idp: Idp, said: dict[str, Any]
) -> None:
    idp.metadata = {
        name: f"{idp.issuer}/" if value == "ISSUER/" else value for name, value in said.items()
    }
    await check_outside(
        site, browser, await browser.get("/login/oidc"), 503, "try again in a moment"
    )


# --- Settings ---


async def test_without_settings_there_is_nothing_of_it(
    serve: Callable[..., Awaitable[Api]], tmp_path: Path
) -> None:
    site = await serve(f"sqlite:///{tmp_path / 'off.db'}")
    for path in ("/login/oidc", "/login/oidc/callback"):
        assert (await site.client().get(path)).status_code == 404
    assert "single sign-on" not in (await site.client().get("/login")).text


async def test_the_routes_are_public_and_not_of_the_api(site: Api) -> None:
    found = {
        route.path: route
        for route in make_app(site.platform).routes
        if route.path.startswith("/login/oidc")
    }
    assert set(found) == {"/login/oidc", "/login/oidc/callback"}
    for handler in routes.HANDLERS:
        assert handler.opt["permission"] == PUBLIC
        assert handler.include_in_schema is False


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"host": "0.0.0.0"}, "public_url"),
        ({"host": "jobs.example.com"}, "public_url"),
        ({"oidc_client_id": ""}, "oidc_client_id"),
        ({"oidc_client_secret": ""}, "oidc_client_secret"),
        ({"oidc_issuer": ""}, "oidc_issuer"),
    ],
)
async def test_a_server_does_not_start_half_set(
    site: Api, idp: Idp, changes: dict[str, Any], field: str
) -> None:
    settings = Settings(url=site.settings.url, **{**settings_for(idp), **changes})
    with pytest.raises(Invalid, match=field):
        await make_server(site.engine, settings)
    if "host" in changes:
        fine = Settings(
            url=site.settings.url,
            public_url="https://jobs.example.com",
            **{**settings_for(idp), **changes},
        )
        assert (await make_server(site.engine, fine)).platform.provider is not None


async def test_without_the_extra_the_server_says_what_to_install(
    site: Api, idp: Idp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    monkeypatch.delitem(sys.modules, "taskforge.client.fetch")
    with pytest.raises(StoreUnsuitable, match=r"taskforge-platform\[oidc\]"):
        await make_server(site.engine, site.settings)


@pytest.mark.parametrize(
    "issuer",
    [
        "http://idp.example.com",
        "ftp://idp.example.com",
        "idp.example.com",
        "https://",
        "https://a@b.example",
        "https://a.example?x",
        "https://[",
    ],
)
def test_an_issuer_is_an_https_address(issuer: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="oidc_issuer"):
        Settings.load({"oidc_issuer": issuer}, environment={})
    for fine in (
        "",
        "https://a.example",
        "https://a.example/tenant/",
        "http://127.0.0.1:9000",
        "http://[::1]:9000",
        "http://localhost:1",
    ):
        assert Settings.load({"oidc_issuer": fine}, environment={}).oidc_issuer == fine


def test_an_id_of_digits_is_text() -> None:
    found = Settings.load(
        environment={
            "TASKFORGE_OIDC_CLIENT_ID": "007",
            "TASKFORGE_OIDC_CLIENT_SECRET": "1e9",
            "TASKFORGE_PORT": "81",
        }
    )
    assert (found.oidc_client_id, found.oidc_client_secret, found.port) == ("007", "1e9", 81)


def test_the_secret_is_not_shown(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    given = {"ISSUER": "https://a.example", "CLIENT_ID": "visible", "CLIENT_SECRET": "geheim"}
    shell.environment |= {f"TASKFORGE_OIDC_{name}": value for name, value in given.items()}
    for words in (["config", "check"], ["config", "check", "--json"]):
        shown = shell.run(*words).stdout
        assert "visible" in shown
        assert "***" in shown
        assert "geheim" not in shown
    del shell.environment["TASKFORGE_OIDC_CLIENT_ID"]
    assert "oidc_client_id" in shell.error("config", "check")
