"""The pages without scripts: nothing of what others wrote becomes markup, and no other site sends
our forms."""

import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from taskforge.api.dashboard import files
from taskforge.api.entry.caller import COOKIE
from taskforge.api.pages.entrance import landing_page, login_page
from taskforge.api.pages.markup import element, joined, prose
from taskforge.api.pages.reference import reference
from taskforge.api.schema.document import document
from taskforge.domain.access import Role
from tests.api.conftest import SETUP, Api

OURS = {"sec-fetch-site": "same-origin"}
REFERENCE_SCRIPTS = ("/assets/reference.js",)
HOSTILE = """</code></p><script>alert(1)</script>"'><img src=x onerror=alert(1)>"""


class Seen(HTMLParser):
    """What a page is made of; fails where tags are not closed as they were opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value is not None]
        if tag not in ("meta", "link", "input", "wbr"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def field(self, name: str) -> str | None:
        return next(one["value"] for one in self.all("input") if one.get("name") == name)

    def check_plain(self, scripts: tuple[str, ...] = ()) -> None:
        """Nothing that the policy forbids: it would be dead in a browser. `scripts`: files of ours
        that it has, with nothing written into the page."""
        ours = [str(one.get("src")).partition("?")[0] for one in self.all("script")]
        assert tuple(ours) == scripts
        for tag, attributes in self.tags:
            assert tag not in ("style", "iframe", "img", "object")
            assert not [name for name in attributes if name == "style" or name.startswith("on")]
            for name in ("href", "src", "action"):
                assert re.match(r"[#/](?!/)", attributes.get(name) or "/"), attributes


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document()["paths"].items():
        for method in ("get", "post", "put", "patch", "delete"):
            if method in item:
                yield method, path, item[method]


@pytest.fixture(autouse=True)
def without_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start page is what a server shows that has no dashboard."""
    monkeypatch.setattr(files, "BUILT", tmp_path / "nothing")


@pytest.fixture
async def sqlite(serve: Callable[..., Awaitable[Api]], tmp_path: Path) -> Api:
    """For what no store has a part in."""
    return await serve(f"sqlite:///{tmp_path / 'pages.db'}")


@pytest.fixture
async def browser(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=api.address, headers=OURS, timeout=30) as made:
        yield made


async def link(api: Api) -> str:
    return await api.platform.accounts.login_secret("ada@example.com", 1, SETUP)


# --- The reference ---


def test_every_operation_is_on_the_reference() -> None:
    seen = Seen(reference(document()).decode())
    seen.check_plain(REFERENCE_SCRIPTS)
    for method, path, described in operations():
        assert described["operationId"] in seen.ids
        assert path in seen.text, (method, path)
        assert (
            described["x-permission"] in ("public", "anyone")
            or described["x-permission"] in seen.text
        )
    assert {f"schema-{name}" for name in document()["components"]["schemas"]} <= set(seen.ids)


def test_every_link_within_the_reference_leads_somewhere_and_no_id_is_there_twice() -> None:
    seen = Seen(reference(document()).decode())
    assert len(seen.ids) == len(set(seen.ids))
    assert {
        href[1:] for one in seen.all("a") if (href := one["href"] or "").startswith("#")
    } <= set(seen.ids)


def test_a_body_is_shown_with_the_fields_one_level_below() -> None:
    page = Seen(reference(document()).decode()).text
    assert "quota.pending_jobs" in page


def test_every_example_of_a_request_is_one_command_that_a_shell_understands() -> None:
    found = re.findall(
        r"<pre><code>(curl .*?)</code></pre>", reference(document()).decode(), re.DOTALL
    )
    commands = [Seen(one).text for one in found]
    assert len(commands) == len(list(operations()))
    script = "curl() { :; }; " + "\n".join(commands)
    subprocess.run(
        ["sh", "-eu", "-c", script], check=True, env={"SERVER": "http://x", "API_KEY": "k"}
    )
    for command in commands:
        assert "{" not in command.split("-d '")[0], "a part of the path was not filled in"


def test_whatever_a_document_says_is_text() -> None:
    wild: dict[str, Any] = {
        "info": {"title": HOSTILE, "version": HOSTILE, "description": HOSTILE},
        "tags": [{"name": HOSTILE, "description": HOSTILE}],
        "paths": {
            f"/{HOSTILE}": {
                "post": {
                    "operationId": HOSTILE,
                    "tags": [HOSTILE],
                    "description": HOSTILE,
                    "x-permission": HOSTILE,
                    "parameters": [
                        {
                            "name": HOSTILE,
                            "in": HOSTILE,
                            "description": HOSTILE,
                            "schema": {"type": HOSTILE},
                        }
                    ],
                    "requestBody": {
                        "content": {
                            "application/json": {
                                "schema": {"$ref": f"#/components/schemas/{HOSTILE}"}
                            }
                        }
                    },
                    "responses": {
                        "200": {"description": HOSTILE},
                        HOSTILE: {"description": HOSTILE},
                    },
                }
            }
        },
        "components": {
            "schemas": {
                HOSTILE: {
                    "type": "object",
                    "description": HOSTILE,
                    "required": [HOSTILE],
                    "properties": {
                        HOSTILE: {
                            "type": "string",
                            "format": HOSTILE,
                            "default": HOSTILE,
                            "enum": [HOSTILE],
                        }
                    },
                }
            }
        },
    }
    page = reference(wild).decode()
    Seen(page).check_plain(REFERENCE_SCRIPTS)
    assert page.count("<script") == 1
    assert "<img" not in page


def test_text_is_escaped_and_markup_is_not_escaped_again() -> None:
    assert (
        element("p", "<b>", joined("&", element("i", "x")), title='"')
        == '<p title="&quot;">&lt;b&gt;&amp;<i>x</i></p>'
    )
    assert prose("use `<a>` & b") == "use <code>&lt;a&gt;</code> &amp; b"


async def test_the_example_of_a_job_can_be_sent_as_it_is(sqlite: Api) -> None:
    from taskforge.operations.access.first_start import make_key

    page = reference(document()).decode()
    article = page[page.index('id="create_job"') :]
    body = (
        Seen(article[article.index("<pre><code>") : article.index("</code></pre>") + 13])
        .text.partition("-d '")[2]
        .rstrip("'")
    )
    client = sqlite.client(await make_key(sqlite.platform, "root"))
    await client.post("/api/v1/queues", json={"name": msgspec.json.decode(body)["queue"]})
    answer = await client.post(
        "/api/v1/jobs", content=body, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 201, answer.text


# --- All of them ---


async def test_pages_are_under_the_strict_policy_and_plain(sqlite: Api) -> None:
    client = sqlite.client()
    for path in ("/", "/login", "/login?token=abc", "/api/v1/docs"):
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (
            200,
            "text/html; charset=utf-8",
        )
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        is_reference = path == "/api/v1/docs"
        assert ("script-src 'self'" in policy) is is_reference
        assert policy.count("script-src") == is_reference
        Seen(answer.text).check_plain(REFERENCE_SCRIPTS if is_reference else ())


async def test_the_style_may_be_kept_and_the_reference_is_sent_once(sqlite: Api) -> None:
    client = sqlite.client()
    page = await client.get("/api/v1/docs")
    seen = Seen(page.text)
    for address in [one["href"] for one in seen.all("link")] + [seen.all("script")[0]["src"]]:
        answer = await client.get(str(address))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    other = await client.get("/assets/style.css?v=of-another-server")
    assert (other.headers["content-type"], other.headers["cache-control"]) == (
        "text/css; charset=utf-8",
        "public, max-age=60",
    )
    again = await client.get("/api/v1/docs", headers={"if-none-match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_style_asks_for_nothing_from_elsewhere() -> None:
    from taskforge.api.pages.markup import asset

    style = asset("style.css").decode()
    assert re.findall(r"url\((.*?)\)", style) == ['"icon.svg"']
    assert "@import" not in style
    assert "prefers-color-scheme: dark" in style


# --- Logging in and out ---


async def test_a_login_link_works_once(api: Api, browser: httpx.AsyncClient) -> None:
    token = await link(api)
    page = Seen((await browser.get("/login", params={"token": token})).text)
    assert page.field("token") == token
    before = await api.audit_count()
    answer = await browser.post("/login", data={"token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert await api.audit_count() == before + 1
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    home = Seen((await browser.get("/")).text)
    assert "ada@example.com" in home.text
    assert Role.OWNER.value in home.text

    async with httpx.AsyncClient(base_url=api.address, headers=OURS) as another:
        again = await another.post("/login", data={"token": token})
        assert again.status_code == 401
        assert "set-cookie" not in again.headers
        assert "used already" in again.text
        assert token not in again.text
        assert "not logged in" in (await another.get("/")).text
    assert await api.audit_count() == before + 1


async def test_to_look_at_a_link_does_not_use_it_up(api: Api, browser: httpx.AsyncClient) -> None:
    token = await link(api)
    for _ in range(3):
        assert (await browser.get("/login", params={"token": token})).status_code == 200
    assert (await browser.post("/login", data={"token": token})).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "OURS"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "OURS.evil.example"},
        {},
    ],
)
async def test_another_site_cannot_log_anyone_in(sqlite: Api, headers: dict[str, str]) -> None:
    token = await link(sqlite)
    sent = {name: value.replace("OURS", sqlite.address) for name, value in headers.items()}
    client = sqlite.client()
    refused = await client.post("/login", data={"token": token}, headers=sent)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    # And the link is still good.
    assert (
        await client.post("/login", data={"token": token}, headers={"origin": sqlite.address})
    ).status_code == 303


async def test_behind_a_proxy_the_public_address_is_ours_too(
    serve: Callable[..., Awaitable[Api]], tmp_path: Path
) -> None:
    api = await serve(f"sqlite:///{tmp_path / 'proxied.db'}", public_url="https://jobs.example.com")
    bound: Any = api.made.server._socket
    address = f"http://127.0.0.1:{bound.getsockname()[1]}/login"
    answer = await api.client().post(
        address, data={"token": await link(api)}, headers={"origin": "https://jobs.example.com"}
    )
    assert answer.status_code == 303
    assert "secure" in answer.headers["set-cookie"].lower()


async def test_logging_out_needs_the_sessions_token_and_ends_the_session(
    api: Api, browser: httpx.AsyncClient
) -> None:
    await browser.post("/login", data={"token": await link(api)})
    session = browser.cookies[COOKIE]
    token = Seen((await browser.get("/")).text).field("csrf_token")
    before = await api.audit_count()
    for wrong in ({}, {"csrf_token": ""}, {"csrf_token": "0" * 64}):
        assert (await browser.post("/logout", data=wrong)).status_code == 403
    assert "ada@example.com" in (await browser.get("/")).text
    assert await api.audit_count() == before

    answer = await browser.post("/logout", data={"csrf_token": token})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert COOKIE not in browser.cookies
    assert await api.audit_count() == before + 1
    # Whoever kept the cookie has nothing.
    kept = api.client(cookies={COOKIE: session})
    assert (await kept.get("/api/v1/session")).status_code == 401
    assert "not logged in" in (await kept.get("/")).text
    # To do it again is no fault, and leaves no trace.
    assert (await kept.post("/logout", data={"csrf_token": token})).status_code == 303
    assert (await browser.post("/logout")).status_code == 303
    assert await api.audit_count() == before + 1


async def test_a_key_in_the_cookie_is_nobody(sqlite: Api) -> None:
    from taskforge.operations.access.first_start import make_key

    client = sqlite.client(cookies={COOKIE: await make_key(sqlite.platform, "root")})
    assert "not logged in" in (await client.get("/")).text


async def test_only_these_two_take_forms_and_they_take_nothing_else(sqlite: Api) -> None:
    client = sqlite.client(cookies={COOKIE: "x"})
    form = {"content-type": "application/x-www-form-urlencoded"}
    for path in ("/api/v1/session/link", "/api/v1/jobs", "/", "/login/", "/login/x", "/logout/"):
        assert (await client.post(path, content="token=a", headers=form)).status_code == 415, path
    for path in ("/login", "/logout"):
        for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
            answer = await client.post(path, content="{}", headers=OURS | {"content-type": kind})
            assert answer.status_code == 415
        assert (await client.put(path, content="token=a", headers=form)).status_code == 415
        large = await client.post(path, data={"token": "a" * 20_000}, headers=OURS)
        assert large.status_code == 413


@pytest.mark.parametrize(
    "token",
    [HOSTILE, '"><script>alert(1)</script>', "' onfocus=alert(1) autofocus '", "\0\n<", "é" * 500],
)
async def test_a_token_is_text(sqlite: Api, token: str) -> None:
    client = sqlite.client()
    answer = await client.get("/login", params={"token": token})
    assert answer.status_code == 200
    page = Seen(answer.text)
    page.check_plain()
    assert "<script" not in answer.text
    assert "autofocus" not in page.all("input")[0]
    refused = await client.post("/login", data={"token": token}, headers=OURS)
    assert refused.status_code == 401
    Seen(refused.text).check_plain()
    assert "alert(1)" not in refused.text


def test_names_on_the_pages_are_text() -> None:
    for page in (landing_page((HOSTILE, HOSTILE, HOSTILE), HOSTILE), login_page(HOSTILE, HOSTILE)):
        Seen(page.decode()).check_plain()
        assert b"<script" not in page
        assert b"<img" not in page
