"""What an examination of a store or a cluster finds, and what to do about it."""

import enum

import msgspec

PARTITIONS = "partitions"  # the subject of what is found of them


class Severity(enum.StrEnum):
    FINE = "fine"
    WARNING = "warning"  # it works, and will not for ever
    FAULT = "fault"  # something does not work


class Finding(msgspec.Struct, frozen=True):
    subject: str
    level: Severity
    text: str
    next_step: str = ""


class PartitionUpkeep(msgspec.Struct, frozen=True):
    """What came of making and dropping partitions."""

    jobs: int = 0  # that went with a partition
    missing: tuple[str, ...] = ()  # days whose partition could not be made


class UpkeepState(msgspec.Struct, frozen=True):
    """How far the upkeep of a store is behind: for how many seconds something has been overdue, by
    the name of what should have done it; and what holds it up."""

    seconds: dict[str, float] = {}
    hindrances: tuple[Finding, ...] = ()


def fine(subject: str, text: str) -> Finding:
    return Finding(subject, Severity.FINE, text)


def warning(subject: str, text: str, next_step: str) -> Finding:
    return Finding(subject, Severity.WARNING, text, next_step)


def fault(subject: str, text: str, next_step: str) -> Finding:
    return Finding(subject, Severity.FAULT, text, next_step)
