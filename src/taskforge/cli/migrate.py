"""taskforge migrate"""

import asyncio
import time

import msgspec
from rich.console import Console

from taskforge.settings import Settings
from taskforge.wiring import make_engine


def migrate(*, url: str | None = None, schema: str | None = None, json: bool = False) -> None:
    """Bring the store up to date. Safe to run from several places at once; a store that is up to date is left alone.

    Parameters
    ----------
    url: sqlite:///file.db or postgresql://…; TASKFORGE_URL and taskforge.toml are read too.
    schema: The PostgreSQL schema.
    json: Print JSON instead of text.
    """
    settings = Settings.load({"url": url, "schema": schema})
    started = time.monotonic()

    async def run() -> None:
        engine = make_engine(settings)
        await engine.open(migrate=True)
        await engine.close()

    asyncio.run(run())
    took = time.monotonic() - started
    if json:
        print(msgspec.json.encode({"status": "up to date", "seconds": round(took, 3)}).decode())
    else:
        Console().print(f"[green]up to date[/] in {took:.1f} s", highlight=False)
