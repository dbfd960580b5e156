"""S7: schemathesis against the served document, as someone with every right and as nobody. Every
run has a seed of its own, which it tells; TASKFORGE_TEST_SEED=<seed> repeats a run."""

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from taskforge.api.routes import organizations
from taskforge.domain.access import Role
from taskforge.operations.access import access_tokens
from tests.api.conftest import Api

pytestmark = pytest.mark.rotates

# Not among them: positive_data_acceptance (which queue exists, or which cursor a page returned, no
# schema says).
CONFIG = """
[checks]
enabled = false
not_a_server_error.enabled = true
status_code_conformance.enabled = true
content_type_conformance.enabled = true
response_headers_conformance.enabled = true
response_schema_conformance.enabled = true
unsupported_method.enabled = true
allow_header_conformance.enabled = true
ignored_auth.enabled = true
missing_required_header.enabled = true

[checks.negative_data_rejection]
enabled = true
# 412: a stale If-Match is told before the body is looked at; 408, 410, 413 and 431 refuse as well
expected-statuses = [
    "400", "401", "403", "404", "405", "408", "409", "410", "412", "413", "415", "422", "429",
    "431",
]

# Bulk calls answer 200 and say in `errors` which jobs were refused.
[[operations]]
include-operation-id = ["create_jobs", "create_jobs_in"]
checks.negative_data_rejection.enabled = false
"""
FULL, NOBODY = "examples,coverage,fuzzing,stateful", "fuzzing"
SEED = int(os.environ.get("TASKFORGE_TEST_SEED") or secrets.randbelow(10**9))


class Run(msgspec.Struct, frozen=True):
    cases: int
    failures: list[str]
    text: str


async def schemathesis(
    api: Api, folder: Path, token: str | None, *, phases: str, examples: int, only: str = ""
) -> Run:
    """One run in a process of its own. The stream of events is left out: it never ends, and is
    tested in test_events.py."""
    config, report = folder / "schemathesis.toml", folder / "report.json"
    config.write_text(CONFIG)
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "--config-file",
        str(config),
        "run",
    ]
    command += [
        f"{api.address}/api/v1/openapi.json",
        "--phases",
        phases,
        "--max-examples",
        str(examples),
    ]
    command += (
        ["--include-operation-id-regex", only]
        if only
        else ["--exclude-operation-id", "stream_events"]
    )
    command += ["--seed", str(SEED), "--no-shrink", "--continue-on-failure"]
    command += [
        "--suppress-health-check",
        "all",
        "--report",
        "json",
        "--report-json-path",
        str(report),
        "--warnings",
        "off",
    ]
    if token is not None:
        command += ["--header", f"Authorization: Bearer {token}"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=folder
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    text = output.decode(errors="replace")
    assert report.exists(), text[-3_000:]
    found: dict[str, Any] = json.loads(report.read_text())
    assert found["complete"], text[-3_000:]
    assert not found["errors"], text[-3_000:]
    failures = [
        f"{one['code']} {one['title']}: {', '.join(one['operations'])}" for one in found["failures"]
    ]
    return Run(found["test_cases"]["generated"], failures, text)


async def prepared(api: Api, monkeypatch: pytest.MonkeyPatch) -> str:
    """An owner of the first organization who has every right there is, with something to find, for
    as long as the run takes."""
    monkeypatch.setattr(access_tokens, "SECONDS", 7_200)
    token = await api.user(1, Role.OWNER)
    client = api.client(token)
    assert (await client.post("/api/v1/queues", json={"name": "0"})).status_code == 201
    jobs = [{"queue": "0", "job_type": "0", "payload": {"n": n}} for n in range(20)]
    assert (await client.post("/api/v1/jobs/bulk", json=jobs)).status_code == 200
    return token


@pytest.mark.parametrize(
    "examples", [pytest.param(3, id="short"), pytest.param(220, id="long", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.timeout(7_200)
async def test_nothing_breaks_and_all_is_as_documented(
    api: Api,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
    examples: int,
) -> None:
    figure(f"S7 schemathesis, SQLite: seed {SEED}")
    token = await prepared(api, monkeypatch)
    run = await schemathesis(api, tmp_path, token, phases=FULL, examples=examples)
    stranger = await schemathesis(
        api, tmp_path, None, phases=NOBODY, examples=max(1, examples // 6)
    )
    assert (run.failures, stranger.failures) == ([], []), run.text + stranger.text
    assert run.cases + stranger.cases >= (20_000 if examples > 100 else 1_500)
    figure(
        f"S7 schemathesis, SQLite: 0 failures, n={run.cases:,} cases with every right, "
        f"{stranger.cases:,} without a credential"
    )


@pytest.mark.parametrize("store_url", ["postgres"], indirect=True)
async def test_the_same_on_postgresql(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    figure(f"S7 schemathesis, PostgreSQL: seed {SEED}")
    run = await schemathesis(
        api, tmp_path, await prepared(api, monkeypatch), phases="fuzzing,stateful", examples=2
    )
    assert run.failures == [], run.text
    figure(f"S7 schemathesis, PostgreSQL: 0 failures, n={run.cases:,} cases")


async def test_a_fault_and_an_open_door_are_noticed(
    serve: Callable[..., Awaitable[Api]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: a route that breaks, one that answers with what it does not declare, and one that
    lets in whoever comes."""
    from taskforge.operations.access.gatekeeper import Gatekeeper

    api = await serve(f"sqlite:///{tmp_path / 'twin.db'}")
    token = await prepared(api, monkeypatch)
    principal = await api.platform.gatekeeper.identify(token)

    async def anyone(self: Gatekeeper, credential: str) -> Any:
        return principal

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Gatekeeper, "identify", anyone)
    monkeypatch.setattr(organizations, "organization_view", broken)
    run = await schemathesis(
        api, tmp_path, token, phases="coverage", examples=1, only="get_organization|list_keys"
    )
    found = "\n".join(run.failures)
    assert "Server error" in found, run.text
    assert "GET /api/v1/organization" in found
    assert "auth" in found.lower()
