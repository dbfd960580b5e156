"""taskforge migrate"""

import time
from typing import Annotated

from cyclopts import Parameter

from taskforge.cli.failure import CommandError
from taskforge.cli.store import STORE, Store, explained, masked
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, patience
from taskforge.ports.engine import is_store
from taskforge.wiring import make_engine


async def migrate(
    *,
    restored: Annotated[
        bool,
        Parameter(
            negative=(),
            help="The store was set back to an earlier time, from a backup: leases of then, and "
            "whatever was handed out since, are over. A dump that was put into PostgreSQL is "
            "noticed without it.",
        ),
    ] = False,
    store: Store = STORE,
) -> None:
    """Make the store, or bring it up to date. Safe to run from several places at once; a store that
    is up to date is left alone."""
    settings = store.settings
    started = time.monotonic()
    engine = make_engine(settings)
    async with patience(f"migrating {masked(settings.url)}"):
        with explained(settings.url):
            await engine.open(migrate=True)
            if restored:
                if not is_store(engine):
                    raise CommandError(
                        "this needs the store itself, and the jobs are behind a server",
                        "run it where the server runs, with the server's --url",
                    )
                await engine.mark_restored()
        await engine.close()
    took = time.monotonic() - started
    if store.json:
        emit({"status": "up to date", "seconds": round(took, 3), "url": masked(settings.url)})
    else:
        store_url = masked(settings.url)
        console().print(
            styled("[green]up to date[/] in {took} s: {url}", took=f"{took:.1f}", url=store_url)
        )
