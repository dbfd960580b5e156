"""What may stand in the way of a job that waits, put into words. Reasons name no workers: not
everyone who sees jobs may see them."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from taskforge.domain.breaker import Mode
from taskforge.domain.dispatch import key_of_worker
from taskforge.domain.durations import span
from taskforge.domain.eligibility import Hindrance
from taskforge.domain.explanation import (
    MOST_AHEAD,
    Candidate,
    Judged,
    PlaceInLine,
    Reason,
    hindrance_now,
)
from taskforge.domain.fairness import NO_KEY, Share
from taskforge.domain.job import StoredJob
from taskforge.domain.outcome import MISFIT_SECONDS
from taskforge.domain.queue import Queue
from taskforge.domain.worker import Worker

MOST_WORKERS = 100
_SHORT = {
    Hindrance.NOT_SUBSCRIBED: "not subscribed to queue {queue.name!r}",
    Hindrance.NOT_ASSIGNED: "not assigned to queue {queue.name!r}, as others are",
    Hindrance.DEAD_LETTERS: "not subscribed to {queue.name!r} (dead letter queues are served by "
    "name only)",
    Hindrance.NO_HANDLER: "without a handler for {job.job_type!r}",
    Hindrance.LACKS_CAPABILITY: "without what it requires: {job.requires}",
    Hindrance.UNHEALTHY: "unhealthy",
    Hindrance.DRAINING: "draining",
    Hindrance.SKIPPED: "whose handler skipped it",
    Hindrance.STUCK: "whose slots are held by handlers that did not end",
    Hindrance.MISFIT: "whose handler its arguments do not fit",
    Hindrance.PLACED_ELSEWHERE: "not the one on which it is placed",
    Hindrance.BUSY: "busy",
}
_ABLE = (None, Hindrance.BUSY)
# But for how they stand just now. For those that drain nobody waits.
_WILLING = (
    None,
    Hindrance.BUSY,
    Hindrance.STUCK,
    Hindrance.SKIPPED,
    Hindrance.MISFIT,
    Hindrance.UNHEALTHY,
)
NOBODY = {"no_worker", "no_able_worker", *Hindrance} - {Hindrance.BUSY}
_UNWILLING = {Hindrance.SKIPPED, Hindrance.MISFIT}


# --- Workers ---


def judge_workers(
    job: StoredJob, queue: Queue, online: Sequence[Judged], standing: PlaceInLine
) -> list[Candidate]:
    made = []
    for worker, hindrance in online:
        stands = hindrance or hindrance_now(worker, standing.skipped)
        if not hindrance and standing.is_placed and key_of_worker(worker.id) != standing.placed:
            stands = Hindrance.PLACED_ELSEWHERE
        slots = (
            f"{worker.active_jobs:,} of {worker.max_concurrent_jobs:,} slots are "
            f"taken{_stuck(worker)}"
        )
        if stands is None:
            text = f"would take it; {slots}"
        elif stands is Hindrance.BUSY:
            text = f"busy: {slots}"
        elif stands is Hindrance.STUCK:
            text = slots
        elif stands is Hindrance.NOT_SUBSCRIBED:
            text = f"serves other queues only: {_few(worker.queues or ())}"
        else:
            text = _SHORT[stands].format(job=job, queue=queue)
        made.append(candidate(worker, stands, text))
    return made


def _stuck(worker: Worker) -> str:
    if not worker.stuck_slots:
        return ""
    return (
        f", {worker.stuck_slots:,} {'is' if worker.stuck_slots == 1 else 'are'} held by "
        f"handlers that did not end"
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def candidate(worker: Worker, hindrance: Hindrance | None, text: str) -> Candidate:
    return Candidate(
        worker.name,
        worker.active_jobs,
        worker.max_concurrent_jobs,
        hindrance,
        text,
        worker.stuck_slots,
        worker.id,
    )


def list_first(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    order = sorted(
        candidates,
        key=lambda one: (one.hindrance is not None, one.hindrance is not Hindrance.BUSY, one.name),
    )
    return tuple(order[:MOST_WORKERS])


# --- What holds it up ---


def time_is_over(standing: PlaceInLine, now: datetime) -> list[Reason]:
    if standing.until is None or standing.until > now:
        return []
    return [
        Reason(
            "expired",
            "the time by which it had to start is over: it is about to fail",
            standing.until,
        )
    ]


def paused(queue: Queue) -> list[Reason]:
    if queue.deleted_at is not None:
        return [
            Reason(
                "queue_deleted", f"queue {queue.name!r} was deleted: it is about to be cancelled"
            )
        ]
    return [] if queue.is_active else [Reason("paused", f"queue {queue.name!r} is paused")]


def shut(job: StoredJob, standing: PlaceInLine, now: datetime) -> list[Reason]:
    """Circuits that hold it back."""
    reasons = []
    for held in standing.circuits:
        what = (
            f"the circuit of job type {job.job_type!r} in its queue"
            if held.dependency is None
            else f"the circuit of {held.dependency!r}, on which it depends,"
        )
        left = None if held.due_at is None else max(0.0, (held.due_at - now).total_seconds())
        if held.mode is Mode.OPEN:
            text = f"{what} was opened by hand: nothing starts until somebody closes it"
            if left is not None:
                text = f"{what} is open, because too much failed: a few jobs try it in {span(left)}"
            reasons.append(Reason("circuit_open", text, held.due_at))
        elif standing.ahead >= held.room:
            text = f"{what} is half-open: a few jobs try it, and more start if those succeed"
            reasons.append(Reason("circuit_probing", text))
    return reasons


def fits_nobody(standing: PlaceInLine, candidates: Sequence[Candidate]) -> Reason | None:
    """Whether no worker that is there has a handler that its arguments fit, and it waits for
    one."""
    willing = {one.hindrance for one in candidates if one.hindrance in _WILLING}
    if standing.misfit_at is None or Hindrance.MISFIT not in willing or not willing <= _UNWILLING:
        return None
    until = standing.misfit_at + timedelta(seconds=MISFIT_SECONDS)
    text = (
        f"its arguments fit no worker that is there ({standing.misfit}): it waits for one that "
        f"they do, as after a deploy"
    )
    return Reason("misfit", f"{text}, until {until:%H:%M:%S} UTC, and may fail then", until)


def without_worker(
    job: StoredJob, queue: Queue, standing: PlaceInLine, candidates: Sequence[Candidate]
) -> list[Reason]:
    if not candidates:
        return [Reason("no_worker", "no worker of its project is online")]
    able = [one for one in candidates if one.hindrance in _ABLE]
    if able:
        if any(one.hindrance is None for one in able):
            return []
        taken, slots = (
            sum(one.active_jobs for one in able),
            sum(one.max_concurrent_jobs for one in able),
        )
        return [
            Reason(
                "busy",
                f"every worker that may take it is busy: {taken:,} of {slots:,} slots are taken",
            )
        ]
    if standing.is_placed:
        return [_misplaced(candidates)]
    unfit = fits_nobody(standing, candidates)
    if unfit is not None:
        return [unfit]
    if {one.hindrance for one in candidates if one.hindrance in _WILLING} == {Hindrance.SKIPPED}:
        fails = ": it is about to fail" if queue.is_active else ""
        return [Reason("skipped", f"every worker that could take it has skipped it{fails}")]
    kinds = Counter(Hindrance(one.hindrance) for one in candidates if one.hindrance is not None)
    said = {kind: _SHORT[kind].format(job=job, queue=queue) for kind in kinds}
    code = next(iter(kinds)).value if len(kinds) == 1 else "no_able_worker"
    if len(candidates) == 1:
        why = candidates[0].text if code == Hindrance.STUCK else next(iter(said.values()))
        return [Reason(code, f"the only worker online does not take it: {why}")]
    several = ", ".join(f"{count:,} {said[kind]}" for kind, count in kinds.items())
    return [Reason(code, f"the {len(candidates):,} workers online do not take it: {several}")]


def _misplaced(candidates: Sequence[Candidate]) -> Reason:
    why = [one.text for one in candidates if one.hindrance != Hindrance.PLACED_ELSEWHERE]
    text = (
        f"the worker on which it is placed does not take it ({', '.join(why[:3]) or 'it is gone'})"
    )
    return Reason("misplaced", f"{text}: the leader places it on another")


def unplaced(queue: Queue, standing: PlaceInLine, candidates: Sequence[Candidate]) -> list[Reason]:
    if standing.placed != NO_KEY or not any(one.hindrance in _ABLE for one in candidates):
        return []
    text = f"it waits for the leader to place it on a worker ({queue.settings.load_balancing})"
    return [Reason("unplaced", text)]


def limited(job: StoredJob, queue: Queue, standing: PlaceInLine, now: datetime) -> list[Reason]:
    reasons, settings, rate = [], queue.settings, standing.rate
    if (
        settings.max_concurrent_jobs is not None
        and standing.running >= settings.max_concurrent_jobs
    ):
        text = (
            f"queue {queue.name!r} runs {standing.running:,} jobs, and at most "
            f"{settings.max_concurrent_jobs:,} at once"
        )
        reasons.append(Reason("concurrency", text))
    fairness, running, waiting = settings.fairness, standing.key_running, standing.key_waiting
    if fairness is not None and standing.share is not None and not fairness.room(running, waiting):
        text = f"{running:,} jobs of its key run, and at most {fairness.max_concurrent_per_key:,}"
        if fairness.is_serial:
            text = "the jobs of its key run one after the other, and " + (
                "one of them runs" if running else "one before it waits to be tried again"
            )
        reasons.append(Reason("key_concurrency", text))
    of_key = standing.key_rate
    if fairness is not None and of_key is not None and of_key.wait > 0:
        lets = f"at most {fairness.rate_limit_per_key:g} jobs of its key start in a minute"
        if job.cost is not None:
            lets = (
                f"its key has {fairness.rate_limit_per_key:g} units a minute, of which its start "
                f"takes {job.cost:,}"
            )
        text = f"{lets}: the next one in {span(of_key.wait)}"
        reasons.append(Reason("key_rate_limit", text, now + timedelta(seconds=of_key.wait)))
    if settings.rate_limit is not None and rate is not None and rate.wait > 0:
        lets = f"starts at most {settings.rate_limit:g} jobs a minute"
        if rate.pace * 60 < 0.99 * settings.rate_limit:
            lets = (
                f"has learned to start {rate.pace * 60:.3g} jobs a minute, of at most "
                f"{settings.rate_limit:g}"
            )
        text = f"queue {queue.name!r} {lets}: the next one in {span(rate.wait)}"
        reasons.append(Reason("rate_limit", text, now + timedelta(seconds=rate.wait)))
    return reasons


def paced(job: StoredJob, queue: Queue, standing: PlaceInLine) -> list[Reason]:
    if standing.opens_at is None or queue.settings.priority_pacing is None:
        return []
    seconds = queue.settings.priority_pacing.seconds(job.priority)
    text = (
        f"held back by pacing until {standing.opens_at:%H:%M:%S} UTC, or until no more jobs are "
        f"ready than slots are free: jobs of priority {job.priority} of queue {queue.name!r} wait "
        f"{span(seconds)} while the project is loaded"
    )
    return [Reason("paced", text, standing.opens_at)]


def risen(job: StoredJob, standing: PlaceInLine) -> list[Reason]:
    """Nothing that holds it up."""
    if not standing.steps:
        return []
    text = (
        f"goes as priority {job.priority + standing.steps} for having waited "
        f"{span(standing.ready_seconds)}"
    )
    return [Reason("risen", text)]


def behind(standing: PlaceInLine) -> list[Reason]:
    counts = (
        ("behind", standing.ahead, "its queue" if standing.share is None else "its key"),
        ("other_queues", standing.elsewhere, "other queues"),
    )
    return [
        *(Reason(code, _go_first(count, whose)) for code, count, whose in counts if count),
        *_in_turns(standing.share),
    ]


def _in_turns(share: Share | None) -> list[Reason]:
    if share is None or share.keys < 2:
        return []
    text = (
        f"{share.keys:,} keys of its queue take turns; of each {share.whole / share.weight:,.3g} "
        f"jobs that start, about one is of its key"
    )
    return [Reason("turns", text)]


def _go_first(count: int, whose: str) -> str:
    if count == 1:
        return f"1 job of {whose} goes first"
    return f"{count:,} {'or more ' if count >= MOST_AHEAD else ''}jobs of {whose} go first"
