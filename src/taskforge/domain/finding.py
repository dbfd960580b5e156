"""What an examination of a store or a cluster finds, and what to do about it."""

import enum

import msgspec


class Severity(enum.StrEnum):
    FINE = "fine"
    WARNING = "warning"  # it works, and will not for ever
    FAULT = "fault"  # something does not work


class Finding(msgspec.Struct, frozen=True):
    subject: str
    level: Severity
    text: str
    next_step: str = ""


def fine(subject: str, text: str) -> Finding:
    return Finding(subject, Severity.FINE, text)


def warning(subject: str, text: str, next_step: str) -> Finding:
    return Finding(subject, Severity.WARNING, text, next_step)


def fault(subject: str, text: str, next_step: str) -> Finding:
    return Finding(subject, Severity.FAULT, text, next_step)
