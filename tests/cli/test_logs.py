"""Logs as JSON, from real processes."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import taskforge
from taskforge.domain.errors import Invalid
from taskforge.telemetry.redaction import redact, redact_value
from tests.support.shell import Shell, until

APP = """
import logging
from taskforge import TaskForge

forge = TaskForge(poll_seconds=0.1)
logger = logging.getLogger("shop")

@forge.job()
async def sell(item: str) -> None:
    logger.info("sold %s with %s", item, "tfk_abcd1234567890efghijkl", extra={"password": "hush"})

@forge.job()
def pack() -> None:
    logger.info("packed in a thread")

@forge.job(kind="process")
def weigh() -> None:
    logger.info("weighed in a process")

@forge.job(max_attempts=1)
async def lose() -> None:
    try:
        raise ValueError("postgresql://ann:hush@db/shop is gone")
    except ValueError:
        logger.exception("lost")
        raise
"""


@pytest.fixture
def shop(tmp_path: Path) -> Shell:
    (tmp_path / "shop.py").write_text(APP)
    return Shell(tmp_path, f"sqlite:///{tmp_path}/jobs.db")


def lines_of(text: str) -> list[dict[str, Any]]:
    """Every line must be an object."""
    return [json.loads(line) for line in text.splitlines() if line]


def test_a_worker_logs_json_with_the_ids_of_its_job_and_no_secret(shop: Shell) -> None:
    words = ("worker", "shop:forge", "--name", "anna", "--log-format", "json")
    with shop.started(*words) as worker:
        worker.until("with 10 slots")
        sold = shop.json("enqueue", "sell", "--payload", '{"item": "tea"}', "--wait")
        for name in ("pack", "weigh"):
            shop.json("enqueue", name, "--wait")
        shop.json("enqueue", "lose", "--wait", status=1)
        worker.until("lose failed")
    told = {line["message"].split(" with")[0]: line for line in lines_of(worker.text)}
    line = told["sold tea"]
    executions = shop.json("jobs", "show", sold["id"])
    assert line["job"] == sold["id"]
    assert line["execution"] == executions["executions"][0]["id"]
    assert (line["queue"], line["job_type"], line["worker"]) == ("default", "sell", "anna")
    assert (line["project"], line["level"], line["logger"]) == ("default", "info", "shop")
    assert line["time"].endswith("+00:00")
    assert line["password"] == "***"
    assert told["packed in a thread"]["job_type"] == "pack"
    assert told["weighed in a process"]["job_type"] == "weigh"
    lost = told["lost"]["exception"]
    assert lost["type"] == "ValueError"
    assert "Traceback" in lost["traceback"]
    failed = next(one for text, one in told.items() if text.startswith("lose failed"))
    assert failed["job"] == told["lost"]["job"]
    assert failed["worker"] == "anna"
    assert "hush" not in worker.text
    assert "1234567890efghijkl" not in worker.text


def test_a_server_logs_as_the_environment_says(shop: Shell) -> None:
    shop.environment["TASKFORGE_LOG_FORMAT"] = "json"
    with shop.started("server", "--port", "0", "--json") as server:
        server.until('"address"')
        until(lambda: '"logger"' in server.text)
    line = next(json.loads(one) for one in server.text.splitlines() if '"logger"' in one)
    assert line["logger"].startswith("taskforge.")
    assert "log_format" in shop.run("server", "--log-format", "xml", status=2).stderr


@pytest.fixture
def bare_root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    root.handlers[:] = before
    root.setLevel(level)


def test_an_application_logs_json_and_keeps_what_it_has_set_up(bare_root: logging.Logger) -> None:
    bare_root.handlers.clear()  # those of pytest, which come before each call
    sink = io.StringIO()
    taskforge.configure_logging("text", stream=sink)
    taskforge.configure_logging("json", project="shop")
    logging.getLogger("shop").info("hello", extra={"item": 7})
    assert [(one["message"], one["item"], one["project"]) for one in lines_of(sink.getvalue())] == [
        ("hello", 7, "shop")
    ]
    assert len(bare_root.handlers) == 1
    own = logging.StreamHandler(io.StringIO())
    bare_root.handlers[:] = [own]
    taskforge.configure_logging("json")
    assert bare_root.handlers == [own]
    with pytest.raises(Invalid, match="log_format"):
        taskforge.configure_logging("yaml")


@pytest.mark.parametrize(
    "text",
    [
        "tfw_abcdhushhushhush",
        "whsec_hushhush/hushhush+hushhush=",
        "postgresql://ann:hush@db/shop",
        "https://:hush@host/",
        "password=hush&x=1",
        '{"secret": "hush"}',
        "Authorization: Bearer hush.hush",
        "eyJhbGciOi.hush.hush",
    ],
)
def test_a_secret_is_blotted_out_by_its_form_or_its_name(text: str) -> None:
    assert "hush" not in redact(text)
    assert "hush" not in str(redact_value("deep", {"in": [text]}))


@pytest.mark.parametrize(
    "text", ["sqlite:///jobs.db", "http://host:8080/a", "tfk_3kd9", "took 3.0 s: fine"]
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text
