"""taskforge audit …: for whoever has the store in hand."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from taskforge.cli.failure import CommandError
from taskforge.cli.store import STORE, Store, opened
from taskforge.cli.ui.screen import console
from taskforge.cli.ui.terminal import emit
from taskforge.domain.audit_chain import Head
from taskforge.operations.audit import last_head
from taskforge.wiring import make_platform

app = App(name="audit", help="Export the head of the audit log, and verify the log.")


@app.command(name="head")
async def show_head(*, store: Store = STORE) -> None:
    """Print the head of the audit log: keep it outside the store, and verify with it."""
    async with opened(store) as engine:
        seal = await (await make_platform(engine, store.settings)).records.audit_seals.head()
    head = None if seal is None else str(Head.of(seal))
    if store.json:
        emit({"head": head})
    else:
        console().print(head or "nothing is sealed yet", soft_wrap=True)


@app.command
async def verify(
    *,
    head: Annotated[
        str | None, Parameter(help="A head that was exported: it must be part of the chain.")
    ] = None,
    head_file: Annotated[
        Path | None, Parameter(help="A file that heads were exported to; its last one counts.")
    ] = None,
    store: Store = STORE,
) -> None:
    """Compute the chain of seals anew; status 1 if the log was tampered with."""
    exported = None if head is None else Head.parse(head)
    if head_file is not None:
        try:
            exported = last_head(head_file)
        except OSError as error:
            raise CommandError(
                f"{head_file} cannot be read: {error.strerror}", "name the file of audit_head_file"
            ) from None
    async with opened(store) as engine:
        platform = await make_platform(engine, store.settings)
        verdict = await platform.audit_heads.verify(exported)
    if store.json:
        emit(verdict)
    elif verdict.intact:
        console().print(
            f"the audit log is intact: {verdict.entries:,} entries under {verdict.seals:,} seals"
        )
    else:
        console().print(f"the audit log was tampered with: {verdict.problem}", soft_wrap=True)
    if not verdict.intact:
        sys.exit(1)
