"""The dashboard as the server answers with it: one page at many addresses, parts that may be kept
for good, a policy without exceptions, and a prefix that a proxy has put before it."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from taskforge.api.dashboard import files
from tests.api.conftest import Api

INDEX = """<!doctype html>
<html lang="en">
  <head>
    <meta name="taskforge-prefix" content="" />
    <meta name="taskforge-single-sign-on" content="" />
    <link rel="icon" href="/assets/icon.svg" />
    <script type="module" crossorigin src="./dashboard/index-abc123.js"></script>
  </head>
  <body></body>
</html>
"""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "built"
    (place / "dashboard").mkdir(parents=True)
    (place / "index.html").write_text(INDEX)
    (place / "dashboard" / "index-abc123.js").write_text("export {};")
    (place / "secret.js").write_text("no part of it")
    monkeypatch.setattr(files, "BUILT", place)
    return place


@pytest.fixture
async def sqlite(serve: Callable[..., Awaitable[Api]], tmp_path: Path) -> Api:
    return await serve(f"sqlite:///{tmp_path / 'dashboard.db'}")


async def test_the_page_answers_at_every_place_of_the_dashboard(built: Path, sqlite: Api) -> None:
    client = sqlite.client()
    pages = [await client.get(path) for path in ("/", "/o/default/p/~/jobs", "/o/a%2Fb/p/x/jobs/1")]
    assert {page.status_code for page in pages} == {200}
    assert len({page.text for page in pages}) == 1
    policy = pages[0].headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert pages[0].headers["cache-control"] == "no-cache"
    again = await client.get("/", headers={"if-none-match": pages[0].headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_a_part_may_be_kept_for_good_and_what_is_missing_is_missing(
    built: Path, sqlite: Api
) -> None:
    client = sqlite.client()
    part = await client.get("/dashboard/index-abc123.js")
    assert part.status_code == 200
    assert part.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert part.headers["content-type"].startswith("text/javascript")
    # a worker's script brings the policy that the worker goes by
    assert "connect-src 'self'" in part.headers["content-security-policy"]
    for name in ("index-000000.js", "..%2Fsecret.js", "..%2Findex.html", "index-abc123", ".js"):
        assert (await client.get(f"/dashboard/{name}")).status_code == 404, name


async def test_the_theme_that_a_browser_chose_is_in_the_page(built: Path, sqlite: Api) -> None:
    async def theme(cookie: str) -> str | None:
        page = await sqlite.client(cookies={"taskforge_theme": cookie}).get("/")
        found = re.search(r'<html data-theme="(\w+)"', page.text)
        return found and found[1]

    assert [await theme(one) for one in ("dark", "light", "system", '"><script>')] == [
        "dark",
        "light",
        None,
        None,
    ]


async def test_behind_a_prefix_every_address_of_the_page_has_it(
    built: Path, serve: Callable[..., Awaitable[Api]], tmp_path: Path
) -> None:
    api = await serve(
        f"sqlite:///{tmp_path / 'prefix.db'}", public_url="https://example.com/tools/forge"
    )
    bound: Any = api.made.server._socket
    page = (await api.client().get(f"http://127.0.0.1:{bound.getsockname()[1]}/o/default/p/~")).text
    assert 'name="taskforge-prefix" content="/tools/forge"' in page
    assert re.findall(r'(?:src|href)="([^"]+)"', page) == [
        "/tools/forge/assets/icon.svg",
        "/tools/forge/dashboard/index-abc123.js",
    ]


async def test_a_server_without_a_dashboard_says_how_to_get_it(
    sqlite: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "BUILT", tmp_path / "nothing")
    client = sqlite.client()
    page = await client.get("/")
    assert page.status_code == 200
    assert "make dashboard" in page.text
    assert (await client.get("/o/default/p/~")).status_code == 404
