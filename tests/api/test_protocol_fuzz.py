"""The worker protocol spoken wrongly: out of order, twice, late, by the wrong worker, with
nonsense. Nothing of it is the server's fault (no 5xx), and no job changes but by the worker that
holds it.

The walk keeps a tiny model (who holds which execution) and a picture of every job. Each step says
which jobs it may change; after it, every other job must look as before.
"""

import asyncio
import json
import random
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from taskforge.domain.ids import epoch_of, fence_of, job_of
from taskforge.domain.job import JobStatus
from taskforge.operations.upkeep import Upkeep
from taskforge.operations.work import completion as completing
from taskforge.operations.work import worker_desk
from taskforge.operations.work.worker_desk import WorkerDesk
from tests.api.conftest import Api

pytestmark = pytest.mark.rotates

STEPS = 400
ERROR = {"type": "E", "message": "m"}
OUTCOMES: list[dict[str, Any]] = [
    {"kind": "success", "result": {"a": [1, None]}},
    {"kind": "failure", "error": ERROR},
    {"kind": "timeout", "seconds": 1},
    {"kind": "heartbeat_missed", "seconds": 1},
    {"kind": "retry", "seconds": 0, "error": ERROR},
    {"kind": "snooze", "seconds": 0},
    {"kind": "cancel"},
    {"kind": "skip"},
    {"kind": "hand_back"},
    {"kind": "crashed", "worker": "child"},
]
# What no field of the protocol takes; some of it is not even JSON, or not JSON that a careful
# parser reads.
NONSENSE = [
    *(
        "null",
        "true",
        "-1",
        "-0.5",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "99999999999999999999999",
        "[]",
        "{}",
        "[null]",
        "[[]]",
    ),
    *('""', r'"\ud800"', r'"\u0000"', f'"{"x" * 70_000}"', '[{"execution": 7}]'),
    *("[" * 5_000 + "]" * 5_000, '{"a":' * 5_000 + "1" + "}" * 5_000),
]
FIELDS = {
    "register": [
        "name",
        "queues",
        "types",
        "max_concurrent_jobs",
        "capabilities",
        "worker_type",
        "role",
        "pid",
        "lease_seconds",
    ],
    "heartbeat": ["incarnation", "cpu_percent", "memory_bytes", "healthy", "lease_seconds"],
    "claim": ["incarnation", "limit", "wait_seconds", "held"],
    "complete": ["incarnation", "outcomes"],
    "progress": ["incarnation", "beats"],
    "logs": ["incarnation", "lines"],
    "deregister": ["incarnation"],
}
ITEMS = {
    "complete": ("outcomes", ["execution", "outcome", "ran_seconds"]),
    "progress": ("beats", ["execution", "started_seconds_ago", "progress", "message"]),
    "logs": ("lines", ["execution", "level", "message", "metadata", "seconds_ago"]),
}


class Side:
    """A tenant: its worker key, and what its workers hold."""

    def __init__(self, root: httpx.AsyncClient, worker: httpx.AsyncClient) -> None:
        self.root, self.worker = root, worker
        self.project = 0
        self.jobs: list[str] = []
        self.live: list[str] = []
        self.gone: list[str] = []
        self.held: dict[str, str] = {}  # execution → incarnation
        self.stale: list[tuple[str, str]] = []  # incarnation, execution


class Walk:
    def __init__(self, api: Api, sides: list[Side], seed: int) -> None:
        self.api, self.sides, self.random = api, sides, random.Random(seed)
        self.calls = self.wrong = self.stale_calls = 0
        self.picture: dict[str, tuple[Any, ...]] = {}

    async def post(self, side: Side, verb: str, body: dict[str, Any] | bytes) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await side.worker.post(
            f"/api/v1/worker/{verb}", content=content, headers={"content-type": "application/json"}
        )
        self.calls += 1
        assert answer.status_code < 500, (
            f"{verb} answered {answer.status_code}: {answer.text[:300]} to {content[:300]!r}"
        )
        self.wrong += answer.status_code >= 400
        return answer

    async def look(self) -> dict[str, tuple[Any, ...]]:
        found = {}
        for side in self.sides:
            for job in await self.api.engine.get([side.project], [UUID(one) for one in side.jobs]):
                # becoming due is nobody's doing
                waiting = job.status in (JobStatus.PENDING, JobStatus.SCHEDULED)
                progress = (job.progress, job.progress_message)
                status = "waiting" if waiting else str(job.status)
                found[str(job.id)] = (
                    status,
                    job.attempt_count,
                    job.crash_count,
                    job.epoch,
                    job.worker,
                    progress,
                    job.result,
                )
        return found

    async def check(self, step: str, may_change: Collection[str]) -> None:
        now = await self.look()
        for job, before in self.picture.items():
            assert job in may_change or now[job] == before, (
                f"fence broken by {step}: {job} was {before}, is {now[job]}"
            )
        self.picture = now
        for side in self.sides:
            running = {
                job: row for job, row in now.items() if row[0] == "processing" and job in side.jobs
            }
            expected = {
                str(job_of(UUID(one))): (epoch_of(UUID(one)), UUID(holder))
                for one, holder in side.held.items()
            }
            assert {job: (row[3], row[4]) for job, row in running.items()} == expected, (
                f"fence broken by {step}: who holds what"
            )

    # --- Steps that are right ---

    async def enqueue(self, side: Side) -> Collection[str]:
        body = {"queue": "mail", "job_type": "send", "payload": {}, "max_attempts": 50}
        answer = await side.root.post("/api/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text
        side.jobs.append(answer.json()["id"])
        return ()

    async def register(self, side: Side, **more: Any) -> Collection[str]:
        answer = await self.post(
            side, "register", {"name": f"w{uuid4().hex[:8]}", "lease_seconds": 600} | more
        )
        assert answer.status_code == 201, answer.text
        side.live.append(answer.json()["incarnation"])
        return ()

    async def claim(self, side: Side) -> Collection[str]:
        if not side.live:
            return await self.register(side)
        incarnation = self.random.choice(side.live)
        return self._took(
            side,
            [
                await self.post(
                    side, "claim", {"incarnation": incarnation, "limit": self.random.randint(1, 3)}
                )
            ],
            incarnation,
        )

    def _took(self, side: Side, answers: list[httpx.Response], incarnation: str) -> Collection[str]:
        taken = [
            one for answer in answers if answer.status_code == 200 for one in answer.json()["jobs"]
        ]
        for one in taken:
            assert one["execution"] not in side.held, "fence broken: given out twice"
            side.held[one["execution"]] = incarnation
        return [one["job"] for one in taken]

    async def twin_claims(self, side: Side) -> Collection[str]:
        if not side.live:
            return ()
        incarnation = self.random.choice(side.live)
        body = {"incarnation": incarnation, "limit": 2, "wait_seconds": 0.05}
        return self._took(
            side,
            await asyncio.gather(*(self.post(side, "claim", body) for _ in range(3))),
            incarnation,
        )

    def _given(self, side: Side) -> tuple[str, str] | None:
        return (
            self.random.choice([(holder, execution) for execution, holder in side.held.items()])
            if side.held
            else None
        )

    def _ends(self, side: Side, holder: str, execution: str) -> Collection[str]:
        del side.held[execution]
        side.stale.append((holder, execution))
        return [str(job_of(UUID(execution)))]

    async def complete(self, side: Side) -> Collection[str]:
        if (mine := self._given(side)) is None:
            return ()
        holder, execution = mine
        strange = [
            {"execution": one, "outcome": self.random.choice(OUTCOMES)}
            for one in self._strangers(side, holder)
        ]
        outcomes = [
            *strange,
            {"execution": execution, "outcome": self.random.choice(OUTCOMES), "ran_seconds": 0.1},
        ]
        self.random.shuffle(outcomes)
        answer = await self.post(side, "complete", {"incarnation": holder, "outcomes": outcomes})
        assert answer.status_code == 200, answer.text
        lost = answer.json()["lost"]
        assert execution not in lost, "the holder's own outcome was not taken"
        assert {one["execution"] for one in strange} <= set(lost), (
            "fence broken: a stranger's outcome was taken"
        )
        return self._ends(side, holder, execution)

    async def twin_outcomes(self, side: Side) -> Collection[str]:
        """The same execution ends in several ways at once, within a batch and beside it: one of
        them counts."""
        if (mine := self._given(side)) is None:
            return ()
        holder, execution = mine
        reports = [
            [{"execution": execution, "outcome": self.random.choice(OUTCOMES)} for _ in range(2)]
            for _ in range(4)
        ]
        answers = await asyncio.gather(
            *(
                self.post(side, "complete", {"incarnation": holder, "outcomes": one})
                for one in reports
            )
        )
        assert sum(execution not in answer.json()["lost"] for answer in answers) <= 1, "taken twice"
        before, after = (
            self.picture[str(job_of(UUID(execution)))],
            (await self.look())[str(job_of(UUID(execution)))],
        )
        assert after[1] - before[1] in (0, -1), (
            f"one execution, counted more than once: {before}, {after}"
        )
        return self._ends(side, holder, execution)

    async def report(self, side: Side) -> Collection[str]:
        if (mine := self._given(side)) is None:
            return ()
        holder, execution = mine
        strange = self._strangers(side, holder)
        if self.random.random() < 0.5:
            beats = [{"execution": one, "progress": 0.9, "message": "stale"} for one in strange]
            beats.append(
                {
                    "execution": execution,
                    "progress": round(self.random.random(), 3),
                    "message": "good",
                }
            )
            answer = await self.post(side, "progress", {"incarnation": holder, "beats": beats})
        else:
            lines = [{"execution": one, "message": "stale"} for one in strange] + [
                {"execution": execution, "message": "good"}
            ]
            answer = await self.post(side, "logs", {"incarnation": holder, "lines": lines})
        assert answer.status_code == 200, answer.text
        assert set(answer.json()["lost"]) == set(strange), (
            f"fence broken by a report: {strange}, {answer.json()}"
        )
        return [str(job_of(UUID(execution)))]

    async def forget(self, side: Side) -> Collection[str]:
        """The answer to a claim was lost: what is not named as held goes back, and its executions
        are stale."""
        if (mine := self._given(side)) is None:
            return ()
        holder, execution = mine
        kept = [one for one, of in side.held.items() if of == holder and one != execution]
        body = {"incarnation": holder, "limit": 0, "held": [*kept, *self._strangers(side, holder)]}
        assert (await self.post(side, "claim", body)).status_code == 200
        return self._ends(side, holder, execution)

    async def expire(self, side: Side) -> Collection[str]:
        """A lease runs out under its jobs; they are someone else's to take."""
        await self.register(side, lease_seconds=0.5)
        incarnation = side.live.pop()
        taken = self._took(
            side,
            [await self.post(side, "claim", {"incarnation": incarnation, "limit": 2})],
            incarnation,
        )
        side.gone.append(incarnation)
        await asyncio.sleep(0.6)
        await Upkeep(self.api.engine, interval=1, retention_days=30).rescue()
        for execution in [one for one, holder in side.held.items() if holder == incarnation]:
            self._ends(side, incarnation, execution)
        return taken

    async def deregister(self, side: Side) -> Collection[str]:
        if not side.live:
            return ()
        incarnation = self.random.choice(side.live)
        answer = await self.post(side, "deregister", {"incarnation": incarnation})
        assert answer.status_code == (409 if incarnation in side.held.values() else 204), (
            answer.text
        )
        if answer.status_code == 204:
            side.live.remove(incarnation)
            side.gone.append(incarnation)
        return ()

    async def restart(self, side: Side) -> Collection[str]:
        """The server knows nobody and nothing any more but what the store says."""
        self.api.platform.desk._given.clear()
        self.api.platform.desk._enrolled.clear()
        return ()

    # --- Steps that are wrong, and change nothing ---

    def _strangers(self, side: Side, holder: str | None) -> list[str]:
        """Executions that are not this worker's: ended, another's, another tenant's, never made, or
        not executions at all."""
        other = self.sides[1 - self.sides.index(side)]
        pool = [execution for _, execution in side.stale + other.stale]
        pool += [one for one, of in side.held.items() if of != holder] + list(other.held)
        pool += [*side.jobs, *other.jobs, *side.live, str(uuid4()), str(UUID(int=0))]
        for execution in [*side.held, *other.held]:
            number = UUID(execution)
            pool += [
                str(fence_of(job_of(number), epoch))
                for epoch in (epoch_of(number) - 1, epoch_of(number) + 1)
                if epoch > 0
            ]
        own = {one for one, of in side.held.items() if of == holder}
        return [
            one
            for one in dict.fromkeys(self.random.choices(pool, k=self.random.randint(1, 4)))
            if one not in own
        ]

    async def intrude(self, side: Side) -> Collection[str]:
        """Someone reports what is not theirs, with an incarnation that is its own, another's, over
        or made up."""
        other = self.sides[1 - self.sides.index(side)]
        makers = [
            *side.live,
            *side.gone[-5:],
            *other.live,
            str(uuid4()),
            *side.jobs[:1],
            *(holder for holder, _ in side.stale[-5:]),
        ]
        incarnation = self.random.choice(makers)
        strange = self._strangers(side, incarnation)
        verb = self.random.choice(
            [
                "complete",
                "complete",
                "complete",
                "progress",
                "logs",
                "heartbeat",
                "deregister",
                "claim",
            ]
        )
        body: dict[str, Any] = {"incarnation": incarnation}
        if verb == "complete":
            body["outcomes"] = [
                {"execution": one, "outcome": self.random.choice(OUTCOMES)} for one in strange
            ]
        elif verb == "progress":
            body["beats"] = [
                {"execution": one, "progress": 0.5, "message": "stale"} for one in strange
            ]
        elif verb == "logs":
            body["lines"] = [{"execution": one, "message": "stale"} for one in strange]
        elif verb == "heartbeat":
            body["lease_seconds"] = 600
        elif verb in ("deregister", "claim") and incarnation in side.live:
            return ()  # these would be right
        answers = await asyncio.gather(
            *(self.post(side, verb, body) for _ in range(self.random.choice([1, 1, 3])))
        )
        self.stale_calls += len(answers)
        for answer in answers:
            if answer.status_code == 200 and verb in ("complete", "progress", "logs"):
                assert set(answer.json()["lost"]) == set(strange), (
                    f"fence broken by {verb}: {strange}, {answer.json()}"
                )
            elif incarnation in other.live:
                assert answer.status_code == 403, answer.text
            elif verb == "claim":
                # Where nothing is to be had, that is answered before anyone asks whose lease it is.
                assert answer.status_code == 409 or answer.json() == {"jobs": []}, (
                    f"fence broken by claim: {answer.text}"
                )
        return ()

    async def nonsense(self, side: Side) -> Collection[str]:
        """One field, of the body or of one item of it, is something else; or the body is not an
        object at all."""
        verb = self.random.choice([*FIELDS])
        incarnation = self.random.choice([*side.live, str(uuid4())])
        execution = self.random.choice([*side.held, str(uuid4())])
        value = self.random.choice(NONSENSE)
        if self.random.random() < 0.1:
            await self.post(side, verb, value.encode())
            return ()
        if verb in ITEMS and self.random.random() < 0.7:
            name, keys = ITEMS[verb]
            item = (
                {"execution": json.dumps(execution), "message": '"m"'}
                if verb == "logs"
                else {"execution": json.dumps(execution)}
            )
            if verb == "complete":
                item["outcome"] = f'{{"kind": "success", "result": {value}, "unknown": 1}}'
                item["ran_seconds"] = "1"
            key = self.random.choice(keys)
            item[key] = value
            fields = {"incarnation": json.dumps(incarnation), name: f"[{_object(item)}]"}
            answer = await self.post(side, verb, _object(fields).encode())
            assert verb != "complete" or key == "ran_seconds" or answer.status_code >= 400, (
                answer.text
            )
            # Nonsense that some field takes all the same (progress null) is a right report of
            # whoever holds it.
            return (
                [str(job_of(UUID(execution)))]
                if answer.status_code == 200 and verb == "progress"
                else ()
            )
        fields = (
            {"incarnation": json.dumps(incarnation)}
            if verb != "register"
            else {"name": json.dumps(f"n{uuid4().hex[:8]}")}
        )
        fields |= {"claim": {"limit": "0"}, "heartbeat": {"lease_seconds": "600"}}.get(verb, {})
        name = self.random.choice(FIELDS[verb])
        if verb == "deregister" or (verb, name) in (
            ("claim", "limit"),
            ("claim", "held"),
            ("heartbeat", "lease_seconds"),
        ):
            # on a live one some of it would be right
            fields["incarnation"] = json.dumps(str(uuid4()))
        fields[name] = value
        await self.post(side, verb, _object(fields).encode())
        return ()

    async def flood(self, side: Side) -> Collection[str]:
        """One more than a call may carry."""
        verb = self.random.choice([*ITEMS])
        name, _ = ITEMS[verb]
        executions = [*side.held, *(str(uuid4()) for _ in range(1_001 - len(side.held)))]
        extra = {
            "complete": {"outcome": OUTCOMES[0]},
            "progress": {"progress": 0.5},
            "logs": {"message": "stale"},
        }[verb]
        body = {
            "incarnation": (side.live or [str(uuid4())])[0],
            name: [{"execution": one} | extra for one in executions],
        }
        answer = await self.post(side, verb, body)
        assert 400 <= answer.status_code < 500
        return ()

    async def run(self, steps: int) -> None:
        right = [
            self.enqueue,
            self.enqueue,
            self.register,
            self.claim,
            self.claim,
            self.claim,
            self.complete,
            self.report,
        ]
        right += [
            self.twin_claims,
            self.twin_outcomes,
            self.forget,
            self.deregister,
            self.restart,
            self.restart,
        ]
        wrong = [self.intrude, self.intrude, self.nonsense]
        for number in range(steps):
            side = self.random.choice(self.sides)
            step = self.random.choice(right if self.random.random() < 0.5 else wrong)
            if number % 60 == 59:
                step = self.expire
            if number % 40 == 39:
                step = self.flood
            await self.check(f"step {number}, {step.__name__}", await step(side))
        for side in self.sides:
            for job in side.jobs:
                lines = (await side.root.get(f"/api/v1/jobs/{job}/logs")).json()["items"]
                assert "stale" not in [one["message"] for one in lines], (
                    "fence broken: a stale line was kept"
                )


def _object(fields: dict[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in fields.items()) + "}"


async def prepared(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, seed: int
) -> Walk:
    monkeypatch.setattr(worker_desk, "ON_THE_WAY", timedelta(seconds=-1))
    other = await api.tenant("acme")
    sides = []
    for number, client in ((1, root), (other.number, api.client(other.key))):
        made = await client.post(
            "/api/v1/queues", json={"name": "mail", "settings": {"retry_delay_seconds": 0}}
        )
        assert made.status_code == 201, made.text
        side = Side(client, api.client(await api.key(number, [], project="default", kind="worker")))
        answer = await client.post(
            "/api/v1/jobs", json={"queue": "mail", "job_type": "send", "max_attempts": 50}
        )
        side.jobs.append(answer.json()["id"])
        for project in range(1, 10):
            if await api.engine.get([project], [UUID(side.jobs[0])]):
                side.project = project
        sides.append(side)
    return Walk(api, sides, seed)


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_protocol_spoken_wrongly_breaks_nothing(
    api: Api,
    root: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
    seed: int,
) -> None:
    walk = await prepared(api, root, monkeypatch, seed)
    await walk.run(STEPS)
    store = api.settings.url.partition(":")[0]
    figure(
        f"protocol fuzz, {store}, seed {seed}: {walk.calls} calls, {walk.wrong} refused, "
        f"{walk.stale_calls} by the wrong one, 0 5xx"
    )
    assert walk.stale_calls > 50


def _anyones(desk: WorkerDesk, worker: Any, fence: UUID) -> Any:
    return desk._given.get(fence)


async def _at_any_epoch(engine: Any, ended: Any, chance: Any) -> list[UUID]:
    """As if the store compared jobs only, and not epochs."""
    import msgspec

    jobs = {
        job.id: job for job in await engine.get([1, 2, 3], [job_of(one.fence) for one in ended])
    }
    present = [
        msgspec.structs.replace(
            one, fence=fence_of(job_of(one.fence), jobs[job_of(one.fence)].epoch)
        )
        for one in ended
    ]
    return await completing.complete(engine, present, chance)


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("broken", ["holder", "epoch"])
async def test_the_walk_sees_a_broken_fence(
    api: Api, root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "holder":
        monkeypatch.setattr(WorkerDesk, "_own", _anyones)
    else:
        kept: dict[UUID, Any] = {}
        own = WorkerDesk._own

        def remembered(desk: WorkerDesk, worker: Any, fence: UUID) -> Any:
            if (found := own(desk, worker, fence)) is not None:
                kept[fence] = found
            return kept.get(fence)

        monkeypatch.setattr(WorkerDesk, "_own", remembered)
        monkeypatch.setattr(worker_desk, "complete", _at_any_epoch)
    walk = await prepared(api, root, monkeypatch, 1)
    with pytest.raises(AssertionError, match=r"fence broken|taken twice"):
        await walk.run(STEPS)


async def test_nonsense_in_every_field_is_the_callers_mistake(
    api: Api,
    root: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
    figure: Callable[[str], None],
) -> None:
    """The rest of each call is right, and comes from a worker that holds the job it speaks of."""
    walk = await prepared(api, root, monkeypatch, 1)
    side = walk.sides[0]
    for verb, fields in FIELDS.items():
        name, keys = ITEMS.get(verb, ("", []))
        for key, inner in [*((one, False) for one in fields), *((one, True) for one in keys)]:
            for value in NONSENSE:
                if not side.held:
                    await walk.register(side)
                    await walk.enqueue(side)
                    await walk.claim(side)
                execution, incarnation = next(iter(side.held.items()))
                item = {"execution": json.dumps(execution)}
                item |= {
                    "complete": {"outcome": '{"kind": "success"}'},
                    "logs": {"message": '"m"'},
                }.get(verb, {})
                body = (
                    {"name": '"n"'}
                    if verb == "register"
                    else {"incarnation": json.dumps(incarnation)}
                )
                if name:
                    body[name] = f"[{_object(item | ({key: value} if inner else {}))}]"
                answer = await walk.post(
                    side, verb, _object(body if inner else body | {key: value}).encode()
                )
                if answer.status_code < 300 and verb in ("complete", "claim", "deregister"):
                    side.held.clear()
    figure(
        f"protocol nonsense, {api.settings.url.partition(':')[0]}: {walk.calls} calls, "
        f"{walk.wrong} refused, 0 5xx"
    )
