"""The demo that `taskforge up` runs when it is given no app: one job type of each kind, and a
gentle stream of jobs."""

import asyncio
import hashlib
import logging
import random
import time

from taskforge.sdk.app import TaskForge
from taskforge.worker.context import Context

logger = logging.getLogger("demo")
forge = TaskForge(grace_seconds=8.0)
forge.queue("emails", description="quick ones", priority=5)
forge.queue("reports", description="slow ones, with progress", max_concurrent_jobs=3)
forge.queue(
    "payments",
    description="dead-lettered when exhausted",
    dead_letter_queue="payments-dead",
    retry_delay_seconds=2,
)
forge.queue("payments-dead", description="what could not be paid")
forge.queue("crm", description="40 jobs a minute, no more", rate_limit=40, rate_limit_burst=2)


@forge.job(queue="emails", priority=5)
async def send_email(to: str) -> str:
    await asyncio.sleep(random.uniform(0.01, 0.2))
    return f"sent to {to}"


@forge.job(queue="reports", timeout=60)
async def make_report(ctx: Context, pages: int) -> dict[str, int]:
    for page in range(pages):
        await asyncio.sleep(random.uniform(0.2, 0.5))
        ctx.progress((page + 1) / pages, f"page {page + 1} of {pages}")
    logger.info("a report of %d pages is ready", pages)
    return {"pages": pages}


@forge.job(queue="default", max_attempts=3)
async def call_partner(order: int) -> None:
    """Flaky: fails now and then, and succeeds when it is tried again."""
    await asyncio.sleep(random.uniform(0.1, 0.6))
    if random.random() < 0.4:
        logger.warning("the partner does not answer for order %d", order)
        raise ConnectionError("partner.example answered 503")


@forge.job(queue="default")
def resize_picture(name: str) -> str:
    """A plain function: runs in a thread."""
    time.sleep(random.uniform(0.2, 0.8))
    return hashlib.sha256(name.encode()).hexdigest()[:12]


@forge.job(queue="default", kind="process", timeout=30)
def count_primes(below: int) -> int:
    """CPU-bound: runs in a process of its own."""
    sieve = bytearray([1]) * below
    for number in range(2, int(below**0.5) + 1):
        if sieve[number]:
            sieve[number * number :: number] = bytes(len(range(number * number, below, number)))
    return sum(sieve) - 2


@forge.job(queue="default", tags=("reminder",))
async def remind(user: str) -> None:
    logger.info("reminded %s", user)


@forge.job(queue="payments", max_attempts=2)
async def charge_card(order: int) -> None:
    """Never works: its jobs end in the dead letter queue."""
    await asyncio.sleep(0.3)
    raise PermissionError(f"the card of order {order} was declined")


@forge.job(queue="crm")
async def sync_contact(contact: int) -> str:
    await asyncio.sleep(0.2)
    return f"contact {contact} is up to date"


async def feed() -> None:
    """Keeps the demo busy, but not so busy that nobody can follow it."""
    number = 0
    while True:
        number += 1
        jobs = [send_email.build(f"user{number}@example.org") for _ in range(random.randint(1, 6))]
        if number % 2 == 0:
            jobs.append(call_partner.build(number))
            jobs.append(sync_contact.build(number))
        if number % 3 == 0:
            jobs.append(resize_picture.build(f"picture-{number}.png"))
            jobs.append(remind.options(delay=random.uniform(3, 15)).build(f"user{number}"))
        if number % 4 == 1:
            jobs.append(make_report.build(random.randint(6, 16)))
        if number % 5 == 0:
            jobs.append(count_primes.build(random.randint(2_000_000, 6_000_000)))
        if number % 16 == 3:
            jobs.append(charge_card.build(number))
        await forge.insert_many(jobs)
        await asyncio.sleep(random.uniform(0.5, 1.1))
