"""Writes docs/design/job-states.md from `domain.job.TRANSITIONS`; `--check` fails when it is out of
date."""

import sys
from pathlib import Path

from taskforge.domain.job import TRANSITIONS, JobStatus

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "design" / "job-states.md"
Status = JobStatus | None

PLACES = {
    "ready": (JobStatus.PENDING,),
    "waiting": (JobStatus.SCHEDULED,),
    "running": (JobStatus.PROCESSING,),
    "finished": (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED),
}

# What brings each move about. The moves themselves come from `TRANSITIONS`; `moves` fails when the
# two lists differ.
CAUSES: dict[tuple[Status, Status], str] = {
    (None, JobStatus.PENDING): "insert",
    (None, JobStatus.SCHEDULED): "insert for later",
    (JobStatus.PENDING, JobStatus.PROCESSING): "claim",
    (JobStatus.PENDING, JobStatus.SCHEDULED): "edit, park",
    (JobStatus.PENDING, JobStatus.FAILED): "expire",
    (JobStatus.PENDING, JobStatus.CANCELLED): "cancel, queue deleted",
    (JobStatus.SCHEDULED, JobStatus.PENDING): "stage, edit, redrive",
    (JobStatus.SCHEDULED, JobStatus.FAILED): "expire",
    (JobStatus.SCHEDULED, JobStatus.CANCELLED): "cancel, queue deleted",
    (JobStatus.PROCESSING, JobStatus.SUCCEEDED): "succeed",
    (JobStatus.PROCESSING, JobStatus.FAILED): "fail",
    (JobStatus.PROCESSING, JobStatus.CANCELLED): "cancel",
    (JobStatus.PROCESSING, JobStatus.SCHEDULED): "retry, snooze",
    (
        JobStatus.PROCESSING,
        JobStatus.PENDING,
    ): "hand back, skip, misfit, dead letter, retry or snooze without delay",
    (JobStatus.SUCCEEDED, None): "delete, prune",
    (JobStatus.FAILED, JobStatus.PENDING): "retry, redrive",
    (JobStatus.FAILED, None): "delete, prune",
    (JobStatus.CANCELLED, JobStatus.PENDING): "retry",
    (JobStatus.CANCELLED, None): "delete, prune",
}


def moves() -> list[tuple[Status, Status, str]]:
    """Every move of the table with its causes, in the order of the table and of the statuses."""
    order: list[Status] = [*JobStatus, None]
    table = [
        (before, after)
        for before, allowed in TRANSITIONS.items()
        for after in sorted(allowed, key=order.index)
    ]
    if set(table) != set(CAUSES):
        odd = ", ".join(f"{before} → {after}" for before, after in set(table) ^ set(CAUSES))
        raise SystemExit(f"tools/state_diagram.py: CAUSES and TRANSITIONS differ in {odd}")
    return [(before, after, CAUSES[before, after]) for before, after in table]


def place_of(status: Status) -> str:
    for place, statuses in PLACES.items():
        if status in statuses:
            return place
    return "–"


def diagram() -> str:
    """The moves as a Mermaid flowchart, one box a place."""
    lines = ["flowchart LR", "    new((new))"]
    for place, statuses in PLACES.items():
        lines.append(f"    subgraph {place}")
        lines += [f"        {status}" for status in statuses]
        lines.append("    end")
    lines.append("    gone((gone))")
    for before, after, cause in moves():
        lines.append(f'    {before or "new"} -->|"{cause}"| {after or "gone"}')
    return "\n".join(lines)


def table() -> str:
    lines = ["| from | place | to | place | by |", "|---|---|---|---|---|"]
    for before, after, cause in moves():
        cells = (before or "new", place_of(before), after or "gone", place_of(after), cause)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page() -> str:
    return f"""# The states of a job

Written by `tools/state_diagram.py` from `TRANSITIONS` in `src/taskforge/domain/job.py`;
`make check` fails when it is out of date.

A box is a **place**: the table that holds the job's row now. A name in it is the **status** that
users see. An arrow is a move that the table allows, with the calls, outcomes or upkeep that cause
it; [engine.md](engine.md) says what each of them does.

```mermaid
{diagram()}
```

{table()}
"""


def main() -> None:
    wanted = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
            raise SystemExit("docs/design/job-states.md is out of date; run `make docs`")
        return
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
