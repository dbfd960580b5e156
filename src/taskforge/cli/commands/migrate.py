"""taskforge migrate"""

import time

from taskforge.cli.store import STORE, Store, explained, masked
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, patience
from taskforge.wiring import make_engine


async def migrate(*, store: Store = STORE) -> None:
    """Make the store, or bring it up to date. Safe to run from several places at once; a store that
    is up to date is left alone."""
    settings = store.settings
    started = time.monotonic()
    engine = make_engine(settings)
    async with patience(f"migrating {masked(settings.url)}"):
        with explained(settings.url):
            await engine.open(migrate=True)
        await engine.close()
    took = time.monotonic() - started
    if store.json:
        emit({"status": "up to date", "seconds": round(took, 3), "url": masked(settings.url)})
    else:
        store_url = masked(settings.url)
        console().print(
            styled("[green]up to date[/] in {took} s: {url}", took=f"{took:.1f}", url=store_url)
        )
