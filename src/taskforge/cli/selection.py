"""Which jobs a command is about: the filters that listing, following, cancelling and retrying
share."""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from taskforge.cli.moments import ago
from taskforge.domain.errors import Invalid, nearest
from taskforge.domain.job import JobStatus
from taskforge.domain.query import JobFilter
from taskforge.operations.naming import find_queue
from taskforge.ports.engine import AnyEngine


def listed(flag: str, text: str | None, example: str) -> tuple[str, ...] | None:
    """A list with commas. An empty one is an unset variable of some script, not a wish for
    everything."""
    if text is None:
        return None
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise Invalid(
            flag, "is empty", f"give it a value, such as {flag} {example}, or leave it out"
        )
    return found


def setting(text: str) -> tuple[str, Any]:
    """What --set gives: NAME=VALUE, with a value that is JSON, or else a text."""
    name, sign, value = text.partition("=")
    if not sign:
        raise Invalid("--set", f"is {text!r}", "use NAME=VALUE, such as max_concurrent_jobs=5")
    try:
        return name.strip(), msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name.strip(), value


@Parameter(name="*")
@dataclass(frozen=True)
class Selection:
    queue: Annotated[
        tuple[str, ...],
        Parameter(help="Jobs of this queue, name or id; of any of several."),
    ] = ()
    status: Annotated[
        tuple[str, ...],
        Parameter(help="Jobs with this status: one, several or a list with commas."),
    ] = ()
    type_: Annotated[
        tuple[str, ...],
        Parameter(name="--type", help="Jobs of this type, or of any of several."),
    ] = ()
    tag: Annotated[
        tuple[str, ...], Parameter(help="Jobs with this tag, or with any of several.")
    ] = ()
    since: Annotated[
        str | None, Parameter(help="Jobs enqueued since: 15m, 2h, 3d, or a date and time.")
    ] = None

    @property
    def is_empty(self) -> bool:
        return self == SELECTION

    def check(self) -> None:
        """Whether each filter that is given has a value."""
        for flag, given, example in (
            *(("--queue", text, "emails") for text in self.queue),
            *(("--type", text, "send_email") for text in self.type_),
            *(("--tag", text, "nightly") for text in self.tag),
            ("--since", self.since, "2h"),
            *(("--status", text, "failed") for text in self.status),
        ):
            listed(flag, given, example)

    def statuses(self) -> tuple[JobStatus, ...]:
        return tuple(
            _status(name) for text in self.status for name in text.split(",") if name.strip()
        )

    async def filter(self, engine: AnyEngine, *, default: tuple[JobStatus, ...] = ()) -> JobFilter:
        """What to ask the engine for; `default` are the statuses meant when none is named."""
        self.check()
        return JobFilter(
            queues=tuple([(await find_queue(engine, name)).name for name in self.queue]),
            statuses=self.statuses() or default,
            job_types=self.type_,
            tags=self.tag,
            created_after=None if self.since is None else ago("--since", self.since),
        )


SELECTION = Selection()


def _status(text: str) -> JobStatus:
    name = text.strip().lower()
    known = [status.value for status in JobStatus]
    if name not in known:
        near = nearest(name, known)
        raise Invalid(
            "--status",
            f"is {text!r}",
            f"did you mean {near!r}?" if near else "use one of " + ", ".join(known),
        )
    return JobStatus(name)
