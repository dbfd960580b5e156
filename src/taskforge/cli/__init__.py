"""The command line. One file for each group of commands, loaded only when its command is called;
this one names them all."""

import os
import sys
from pathlib import Path

try:
    from cyclopts import App, Parameter

    from taskforge.cli.failure import INTERRUPTED, report
    from taskforge.cli.hiding import hide_password
    from taskforge.version import __version__
except KeyboardInterrupt:  # loading takes long enough for a Ctrl-C
    sys.exit(130)

# Plain help text: the Markdown renderer alone takes a quarter of the time that --help has.
app = App(
    name="taskforge",
    help="A durable job platform on SQLite or PostgreSQL. Begin with `taskforge up`; every "
    "command takes --json.",
    version=__version__,
    help_format="plaintext",
    default_parameter=Parameter(
        negative="",
        show_default=lambda value: None if value in ("", (), None) or value is False else value,
    ),
)
app.command(
    "taskforge.cli.commands.up:up",
    name="up",
    help="Run an app, or the demo, in one process with a live view.",
    sort_key=1,
)
app.command(
    "taskforge.cli.commands.worker:worker",
    name="worker",
    help="Run an app's jobs until stopped.",
    sort_key=2,
)
app.command(
    "taskforge.cli.commands.server:server",
    name="server",
    help="Serve the REST API until stopped.",
    sort_key=2,
)
app.command(
    "taskforge.cli.commands.enqueue:enqueue",
    name="enqueue",
    help="Enqueue one job, and wait for it if asked to.",
    sort_key=3,
)
app.command(
    "taskforge.cli.commands.jobs:app",
    name="jobs",
    help="List, show, follow, cancel, retry and redrive jobs.",
    sort_key=4,
)
app.command(
    "taskforge.cli.commands.queues:app",
    name="queues",
    help="List, create, pause, resume and measure queues.",
    sort_key=5,
)
app.command(
    "taskforge.cli.commands.workers:app", name="workers", help="List and drain workers.", sort_key=6
)
app.command(
    "taskforge.cli.commands.schedules:app",
    name="schedules",
    help="Make, list, change, pause, run and delete schedules.",
    sort_key=5,
)
app.command(
    "taskforge.cli.commands.alerts:app",
    name="alerts",
    help="Make, list, change, silence and delete alert rules.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.webhooks:app",
    name="webhooks",
    help="Make, list, change, try and delete webhooks.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.failures:app",
    name="failures",
    help="See what fails alike, run its jobs again, or delete them.",
    sort_key=2,
)
app.command(
    "taskforge.cli.commands.assignments:app",
    name="assignments",
    help="See and change which workers serve which queues.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.circuits:app",
    name="circuits",
    help="List, open and close circuits, and set what opens them.",
    sort_key=5,
)
app.command(
    "taskforge.cli.commands.scaling:app",
    name="scaling",
    help="See and set how many workers queues should have.",
    sort_key=5,
)
app.command(
    "taskforge.cli.commands.stats:stats",
    name="stats",
    help="Tell how executions went over a period.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.stats:top",
    name="top",
    help="Watch what runs, waits and fails.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.simulate:app",
    name="simulate",
    help="Try scaling policies on a trace, in virtual time.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.cluster:cluster",
    name="cluster",
    help="List the nodes and say which one leads.",
    sort_key=6,
)
app.command(
    "taskforge.cli.commands.doctor:doctor",
    name="doctor",
    help="Examine the store and the cluster, and say what to do.",
    sort_key=8,
)
app.command(
    "taskforge.cli.commands.keys:app",
    name="keys",
    help="Create, list and revoke API keys and worker keys.",
    sort_key=7,
)
app.command(
    "taskforge.cli.commands.audit:app",
    name="audit",
    help="Export the head of the audit log, and verify the log.",
    sort_key=7,
)
app.command(
    "taskforge.cli.commands.keys:login_link",
    name="login-link",
    help="Print a one-time login link.",
    sort_key=7,
)
app.command(
    "taskforge.cli.commands.migrate:migrate",
    name="migrate",
    help="Make the store, or bring it up to date.",
    sort_key=7,
)
app.command(
    "taskforge.cli.commands.config:app",
    name="config",
    help="Check the settings and see where they come from.",
    sort_key=8,
)
app.command(
    "taskforge.cli.commands.version:version",
    name="version",
    help="Tell the versions of TaskForge and what it runs on.",
    sort_key=9,
)


def main() -> None:
    """Errors are part of the product: what went wrong, what to do next, and a status that scripts
    can test."""
    _open_what_is_closed()
    hide_password(sys.argv[1:])
    try:
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - `report` raises again what nobody foresaw
        sys.exit(report(error))


def _open_what_is_closed() -> None:
    """After `>&-` Python has None there, and the next file to be opened would become the standard
    output."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


__all__ = ["app", "main"]
