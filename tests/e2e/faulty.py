"""An application in which three things go wrong: its queue is paused, no worker can do what a job
requires, and what its jobs depend on is away."""

from taskforge.sdk.app import TaskForge

forge = TaskForge(grace_seconds=1.0)
forge.queue("default")
forge.queue("held", accept_while_paused=True)


@forge.job(queue="held")
async def wait_for_it() -> str:
    return "ran"


@forge.job(queue="default", max_attempts=1, depends_on=["the bank"])
async def transfer(number: int) -> str:
    """Never works: the bank is away."""
    raise ConnectionError(f"bank.example does not answer (transfer {number})")


@forge.job(queue="default")
async def render() -> str:
    return "nobody here can"
