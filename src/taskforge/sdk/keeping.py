"""How an application's workers are set up: their options, and the process that keeps their
lease."""

import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import msgspec

from taskforge.domain.scaling import SCALED_BY
from taskforge.settings import Settings
from taskforge.worker.options import WorkerOptions
from taskforge.worker.processes.keeper_words import Charge, Word
from taskforge.worker.processes.lease_keeper import LeaseKeeper
from taskforge.worker.processes.process_id import this_process
from taskforge.worker.worker import KeeperMaker


def choose_options(settings: Settings, options: Mapping[str, Any]) -> WorkerOptions:
    """What is not named is as the settings say."""
    defaults = {
        "lease_seconds": settings.lease_seconds,
        "poll_seconds": settings.poll_seconds,
        "grace_seconds": settings.grace_seconds,
    }
    chosen = WorkerOptions(**(defaults | dict(options)))
    if settings.scaled_by:
        marked = chosen.capabilities | {SCALED_BY: settings.scaled_by}
        chosen = msgspec.structs.replace(chosen, capabilities=marked)
    return chosen


def keeper_maker(store: Settings, lease_seconds: float) -> KeeperMaker:
    interval = min(store.rhythm_of(lease_seconds), 1.0)

    def make_keeper(incarnation: UUID, hear: Callable[[Word], None]) -> LeaseKeeper:
        charge = Charge(store, incarnation, lease_seconds, interval, this_process())
        return LeaseKeeper([sys.executable, "-m", "taskforge.sdk.lease_keeper"], charge, hear)

    return make_keeper
