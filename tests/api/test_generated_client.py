"""The committed document is valid, is what the server serves, and is enough for a stranger's
generator to make a working client."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx
import pytest
from openapi_spec_validator import validate

from taskforge.operations.access.first_start import make_key
from tests.api.conftest import Api

COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
STORY = """
import sys
from uuid import UUID

from taskforge_client import AuthenticatedClient
from taskforge_client.api.jobs import cancel_job, create_job, get_job, list_jobs
from taskforge_client.api.queues import create_queue
from taskforge_client.models import CancelBody, JobStatus, NewJobBody, NewQueue, Problem

address, token = sys.argv[1:]
with AuthenticatedClient(base_url=address, token=token, raise_on_unexpected_status=True) as client:
    queue = create_queue.sync(client=client, body=NewQueue(name="mail"))
    assert queue.name == "mail" and isinstance(queue.id, UUID), queue
    body = NewJobBody(queue="mail", job_type="send", payload={"to": "a@b"})
    job = create_job.sync(client=client, body=body, idempotency_key="k1")
    again = create_job.sync(client=client, body=body, idempotency_key="k1")
    assert (job.id, again.existed) == (again.id, True), again
    listed = list_jobs.sync(client=client, queue="mail", status=[JobStatus.PENDING])
    assert [one.id for one in listed.items] == [job.id], listed
    cancelled = cancel_job.sync(client=client, job_id=job.id, body=CancelBody(reason="not needed"))
    assert cancelled.status == JobStatus.CANCELLED, cancelled
    assert get_job.sync(client=client, job_id=job.id).reason == "not needed"
    refused = cancel_job.sync(client=client, job_id=job.id, body=CancelBody())
    assert isinstance(refused, Problem) and refused.status == 409, refused
print("told")
"""


def test_the_document_is_valid_and_committed() -> None:
    from taskforge.api.schema.document import document_bytes

    committed = COMMITTED.read_bytes()
    validate(json.loads(committed))
    assert committed == document_bytes() + b"\n", "run `make docs`"


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_the_server_serves_it(api: Api, root: httpx.AsyncClient) -> None:
    assert (await api.client().get("/api/v1/openapi.json")).json() == json.loads(
        COMMITTED.read_text()
    )


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
async def test_a_generated_client_works(api: Api, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    generator = Path(sys.executable).with_name("openapi-python-client")
    target = tmp_path / "taskforge_client"
    made = await _run(
        [
            str(generator),
            "generate",
            "--path",
            str(COMMITTED),
            "--output-path",
            str(target),
            "--meta",
            "none",
            "--fail-on-warning",
        ],
        tmp_path,
        environment,
    )
    assert "arning" not in made, made
    story = tmp_path / "story.py"
    story.write_text(STORY)
    key = await make_key(api.platform, "generated client")
    told = await _run([sys.executable, str(story), api.address, key], tmp_path, environment)
    assert told.strip().endswith("told"), told


async def _run(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()
