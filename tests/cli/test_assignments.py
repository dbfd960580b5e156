import asyncio

from taskforge import TaskForge
from taskforge.domain.tenancy import FIRST_PROJECT
from taskforge.domain.worker import NewWorker, Sample
from tests.support.shell import Shell


async def _register(shell: Shell) -> None:
    url = shell.environment.get("TASKFORGE_URL") or f"sqlite:///{shell.folder}/taskforge.db"
    async with TaskForge(url) as forge:
        engine = await forge.engine()
        for name in ("one", "two"):
            worker = NewWorker(name=name, max_concurrent_jobs=4)
            made = await engine.register(FIRST_PROJECT, worker, 600.0)
            await engine.renew(made.incarnation, 600.0, Sample())


def test_assignments_from_the_shell(shell: Shell) -> None:
    shell.json("queues", "create", "mail")
    asyncio.run(_register(shell))
    assert "no assignment" in shell.run("assignments", "list").stdout
    made = shell.json("assignments", "add", "mail", "one", "--weight", "5")["assignment"]
    assert (made["weight"], made["is_active"]) == (5, True)
    [only] = shell.json("assignments", "workers", "mail")["workers"]
    assert (only["name"], only["active"], only["max"], only["load_percent"]) == ("one", 0, 4, 0.0)
    assert "weight 7" in shell.run("assignments", "set", "mail", "one", "--weight", "7").stdout
    assert "7" in shell.run("assignments", "matrix").stdout
    names = {queue["name"] for queue in shell.json("assignments", "queues", "two")["queues"]}
    assert "mail" not in names
    off = shell.json("assignments", "set", "mail", "one", "--inactive")["assignment"]
    assert off["is_active"] is False
    assert "one" in shell.run("assignments", "workers", "mail").stdout
    assert "inactive" in shell.run("assignments", "list", "--queue", "mail").stdout
    wrong = shell.run("assignments", "add", "mail", "two", "--weight", "101", status=2)
    assert "weight" in wrong.stderr
    assert "no longer" in shell.run("assignments", "remove", "mail", "one").stdout
    assert shell.json("assignments", "list") == {"assignments": []}
