"""taskforge doctor"""

from taskforge.cli.failure import CommandError
from taskforge.cli.store import STORE, Store, masked, opened
from taskforge.cli.ui.screen import console, styled
from taskforge.cli.ui.terminal import emit, status, table
from taskforge.domain.finding import Severity
from taskforge.operations.examination import examine
from taskforge.ports.engine import is_store


async def doctor(*, store: Store = STORE) -> int:
    """Examine the store and the cluster: clock, versions, roles, disk, bloat, upkeep, leader. Each
    finding says what to do. Fails when something does not work."""
    async with opened(store) as engine:
        if not is_store(engine):
            raise CommandError(
                "this needs the store itself, and the jobs are behind a server",
                "run it where the server runs, with the server's --url",
            )
        findings = await examine(engine)
    worst = max(findings, key=lambda one: list(Severity).index(one.level)).level
    if store.json:
        emit({"worst": worst, "findings": findings})
        return int(worst is Severity.FAULT)
    out = console()
    out.print(styled("{store}", store=masked(store.settings.url)))
    rows = table("subject", "level", "finding", "next", flexible=("finding", "next"))
    for one in findings:
        rows.add_row(one.subject, status(one.level), one.text, one.next_step)
    out.print(rows)
    return int(worst is Severity.FAULT)
