"""Finds what a principal names. By id, what belongs to others is forbidden; what nobody has is not
found."""

from uuid import UUID

from taskforge.domain.access import Forbidden, Principal
from taskforge.domain.alert import AlertRule
from taskforge.domain.errors import Invalid, NotFound, TaskForgeError
from taskforge.domain.failure_group import FailureGroup
from taskforge.domain.job import StoredJob
from taskforge.domain.job_parts import BRIEF, WHOLE, Parts
from taskforge.domain.queue import Queue
from taskforge.domain.schedule import Schedule
from taskforge.domain.webhook import Webhook
from taskforge.domain.worker import Worker
from taskforge.operations import alerts, schedules, webhooks
from taskforge.operations.directory import no_queue
from taskforge.operations.platform import Platform
from taskforge.storage.records.failures import FailureRecords


async def find_job(
    platform: Platform, principal: Principal, identifier: UUID, parts: Parts = WHOLE
) -> StoredJob:
    jobs = await platform.engine.get(principal.projects, [identifier], parts)
    if not jobs:
        others = await platform.tenants.others(principal)
        elsewhere = bool(await platform.engine.get(others, [identifier], BRIEF))
        raise absence(principal, "job", identifier, elsewhere)
    return jobs[0]


async def find_queue(platform: Platform, principal: Principal, name: UUID | str) -> Queue:
    """By id, or by name among those that the principal may touch. No queue is named like the id of
    another."""
    identifier = _parse_id(name)
    directory = platform.engine.directory
    queues = await directory.find_queues(principal.projects, str(name))
    matches = [queue for queue in queues if queue.id == identifier] or queues
    if len(matches) > 1:
        raise Invalid(
            "queue", f"{name!r} is in {len(matches)} of your projects", "name it by its id"
        )
    if matches:
        return matches[0]
    if identifier is None:
        raise await no_queue(platform.engine, principal.projects, str(name))
    others = await platform.tenants.others(principal)
    elsewhere = bool(await directory.find_queues(others, str(identifier)))
    raise absence(principal, "queue", identifier, elsewhere)


async def find_schedule(platform: Platform, principal: Principal, name: str) -> Schedule:
    """By id, or by name among those that the principal may touch."""
    identifier = _parse_id(name)
    if identifier is None or await platform.records.schedules.find(principal.projects, name):
        return await schedules.find_schedule(platform.records.schedules, principal.projects, name)
    if found := await platform.records.schedules.find(principal.projects, identifier):
        return found[0]
    others = await platform.tenants.others(principal)
    elsewhere = bool(await platform.records.schedules.find(others, identifier))
    raise absence(principal, "schedule", identifier, elsewhere)


async def find_alert_rule(platform: Platform, principal: Principal, name: str) -> AlertRule:
    """By id, or by name among those that the principal may touch."""
    found = platform.records.alerts
    identifier = _parse_id(name)
    if identifier is None or await found.find(principal.projects, name):
        return await alerts.find_rule(found, principal.projects, name)
    if rules := await found.find(principal.projects, identifier):
        return rules[0]
    others = await platform.tenants.others(principal)
    elsewhere = bool(await found.find(others, identifier))
    raise absence(principal, "alert rule", identifier, elsewhere)


async def find_webhook(platform: Platform, principal: Principal, name: str) -> Webhook:
    """By id, or by name among those that the principal may touch."""
    found = platform.records.webhooks
    identifier = _parse_id(name)
    if identifier is None or await found.find(principal.projects, name):
        return await webhooks.find_webhook(found, principal.projects, name)
    if mine := await found.find(principal.projects, identifier):
        return mine[0]
    others = await platform.tenants.others(principal)
    elsewhere = bool(await found.find(others, identifier))
    raise absence(principal, "webhook", identifier, elsewhere)


async def find_failure_group(
    platform: Platform, principal: Principal, identifier: UUID
) -> FailureGroup:
    records = FailureRecords(platform.engine)
    group = await records.find(principal.projects, identifier)
    if group is not None:
        return group
    others = await platform.tenants.others(principal)
    elsewhere = await records.find(others, identifier) is not None
    raise absence(principal, "failure group", identifier, elsewhere)


async def find_worker(platform: Platform, principal: Principal, identifier: UUID) -> Worker:
    """The newest life of it."""
    find = platform.engine.directory.find_workers
    for worker in reversed(await find(principal.projects, str(identifier))):
        if worker.id == identifier:
            return worker
    others = await find(await platform.tenants.others(principal), str(identifier))
    elsewhere = any(worker.id == identifier for worker in others)
    raise absence(principal, "worker", identifier, elsewhere)


def absence(principal: Principal, kind: str, identifier: UUID, elsewhere: bool) -> TaskForgeError:
    """The error for an id that the principal has not: `elsewhere` says that others have it."""
    if elsewhere:
        return Forbidden(f"{kind} {identifier} is not one that {principal.label} may touch")
    return NotFound(kind, str(identifier))


def _parse_id(name: UUID | str) -> UUID | None:
    try:
        return UUID(str(name))
    except ValueError:
        return None
