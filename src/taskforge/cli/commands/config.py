"""taskforge config check"""

import time
from typing import Annotated

from cyclopts import App, Parameter
from rich.text import Text

from taskforge.cli.store import STORE, Store, masked, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, table
from taskforge.settings import Settings
from taskforge.wiring import make_engine

app = App(name="config", help="Check the settings and see where they come from.")
SECRET_SETTINGS = ("secret", "token", "oidc_client_secret", "audit_key")
_SOURCES = {"default": "bright_black", "file": "cyan", "environment": "green", "flag": "yellow"}


@app.command
async def check(
    *,
    store: Store = STORE,
    connect: Annotated[bool, Parameter(help="Also try the store.")] = False,
) -> None:
    """Show every setting, its value and where it came from. Passwords are masked. Fails when a
    setting is wrong."""
    found = Settings.traced({"url": store.url, "schema": store.schema})
    make_engine(store.settings)  # a URL that no engine understands is wrong too
    store.settings.has_single_sign_on()
    _ = store.settings.silence_seconds  # of which an engine behind a server knows nothing
    answered: float | None = None
    if connect:
        async with opened(store) as engine:
            started = time.monotonic()
            await engine.now()
            answered = (time.monotonic() - started) * 1000
    shown = {name: _shown(name, one.value) for name, one in found.items()}
    if store.json:
        settings = {
            name: {"value": value, "source": found[name].source} for name, value in shown.items()
        }
        emit({"settings": settings, "store_answered_ms": answered})
        return
    rows = table("setting", "value", "from", whole=("setting", "from"))
    for name, value in shown.items():
        source = found[name].source
        rows.add_row(
            name,
            str(value).lower() if isinstance(value, bool) else str(value),
            Text(source, style=_SOURCES[source]),
        )
    out = console()
    out.print(rows)
    if answered is not None:
        out.print(styled("[green]the store answers[/] in {ms} ms", ms=f"{answered:.1f}"))


def _shown(name: str, value: object) -> object:
    if name == "url":
        return masked(str(value))
    if name == "scaling_providers" and isinstance(value, dict):
        return {
            provider: {key: "***" if key == "secret" else one for key, one in table.items()}
            for provider, table in value.items()
        }
    return "***" if name in SECRET_SETTINGS and value else value
