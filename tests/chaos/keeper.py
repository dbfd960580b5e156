"""The lease keeper of a broken twin: `python -m tests.chaos.keeper`. What `tests.chaos.app` breaks
is broken here too."""

import asyncio
import os
import sys

import tests.chaos.app  # noqa: F401 - for what it breaks
from taskforge.sdk import lease_keeper
from taskforge.worker.processes.process_watch import die_with_parent, outlive_signals

if __name__ == "__main__":
    if os.environ["CHAOS_TWIN"] == "the keeper dies with its worker":
        die_with_parent()
    outlive_signals()
    sys.exit(asyncio.run(lease_keeper.main()))
