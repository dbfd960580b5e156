"""The app that workers of scaling policies run: jobs that take as long as they are told to."""

import asyncio

from taskforge import TaskForge

forge = TaskForge()


@forge.job(queue="mail")
async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)
