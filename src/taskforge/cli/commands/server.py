"""taskforge server"""

import asyncio
import logging
import sys
from typing import Annotated

import msgspec
from cyclopts import Parameter

from taskforge.cli.logs import LogFormat
from taskforge.cli.serving import Serving, prepare
from taskforge.cli.session import run
from taskforge.cli.store import STORE, Store, explained, masked
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit
from taskforge.node import make_node
from taskforge.sdk.logs import configure_logging
from taskforge.settings import Settings
from taskforge.telemetry.trace_export import export_traces
from taskforge.wiring import make_store
from taskforge.worker.processes.process_watch import heard


def server(
    *,
    host: Annotated[
        str | None, Parameter(help="Where to listen; 127.0.0.1 keeps it to this machine.")
    ] = None,
    port: Annotated[int | None, Parameter(help="On which port.")] = None,
    log_format: LogFormat = None,
    store: Store = STORE,
) -> int:
    """Serve the REST API until stopped. The first start prints a one-time login link and an API
    key."""
    flags = {"url": store.url, "schema": store.schema, "host": host, "port": port}
    settings = Settings.load(flags | {"log_format": log_format})
    configure_logging(settings.log_format)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    if settings.tracing:
        export_traces("taskforge-server")
    return run(_serve(settings, quiet=store.json))


async def _serve(settings: Settings, *, quiet: bool) -> int:
    engine = make_store(settings, walled=True)
    with explained(settings.url):
        await engine.open()
    try:
        serving = await prepare(engine, settings, or_any=False)
        node = make_node(engine, settings, server=serving.made)
        loop = asyncio.get_running_loop()
        for number in heard():
            loop.add_signal_handler(number, node.stop)
        _tell(serving, masked(settings.url), quiet=quiet)
        await node.run()
    finally:
        await engine.close()
    return 0


def _tell(serving: Serving, place: str, *, quiet: bool) -> None:
    if quiet:
        link, key = serving.credentials or (None, None)
        emit(
            msgspec.to_builtins(
                {"address": serving.address, "store": place, "login_link": link, "api_key": key}
            )
        )
    else:
        out = console()
        out.print(f"taskforge server on {place}", soft_wrap=True)
        for line in serving.lines():
            out.print(line, soft_wrap=True, markup=False)
    sys.stdout.flush()
