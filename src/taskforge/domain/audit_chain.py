"""The chain of seals over the audit log: how a seal is made, and what shows that one was tampered
with.

A seal's hash covers every field of it and the hash of the seal before. With a key that is kept
outside the store only a server can make one. What was pruned is told by the chain itself: from a
checkpoint on, seals carry the number of the newest seal whose entries are gone.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Self

import msgspec

from taskforge.domain.audit import AuditEntry, digest_of
from taskforge.domain.errors import Invalid

FIRST = b"\0" * 32
UNKEYED = ""


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """Closes the entries behind the seal before it, up to and with (last_xact, last_number)."""

    number: int
    last_xact: int
    last_number: int
    entries: int
    digest: bytes
    previous: bytes  # the hash of the seal before it
    pruned_to: int  # the entries of this seal and of all before it are gone; 0: of none
    key: str  # the id of the key that made the hash
    hash: bytes
    handover: bytes | None  # where the key is another than before: the hash by the key before
    at: datetime


class Head(msgspec.Struct, frozen=True):
    """The last seal, as it is kept outside the store: what it closed can be replaced no more."""

    seal: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seal}:{self.hash}"

    @classmethod
    def of(cls, seal: Seal) -> Self:
        return cls(seal.number, seal.hash.hex())

    @classmethod
    def parse(cls, text: str) -> Self:
        matched = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text.strip())
        if matched is None:
            raise Invalid("head", "is none", "give it as it was exported, such as 12:9f86d0…")
        return cls(int(matched[1]), matched[2])


class ChainCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the whole chain found."""

    intact: bool
    seals: int
    entries: int
    problem: str | None
    # the last seal: kept elsewhere and given to the next check, it shows a log that was cut or
    # replaced as a whole
    head: str | None
    key: str | None = None  # the id of the key that made the last seal; None: without a key
    checkpoint: int | None = None  # the newest seal whose entries were pruned


class SealKey(msgspec.Struct, frozen=True):
    id: str
    secret: bytes

    @classmethod
    def of(cls, secret: bytes) -> Self:
        return cls(hashlib.sha256(b"taskforge audit key" + secret).hexdigest()[:12], secret)


class SealKeys:
    """The keys that a server knows: the first makes seals, the others made earlier ones."""

    def __init__(self, keys: Sequence[SealKey] = ()) -> None:
        self._by_id: dict[str, bytes | None] = {key.id: key.secret for key in keys}
        self.current = keys[0].id if keys else UNKEYED
        self._by_id[UNKEYED] = None

    def knows(self, key: str) -> bool:
        return key in self._by_id

    def hash_of(self, key: str, content: bytes) -> bytes:
        secret = self._by_id[key]
        if secret is None:
            return hashlib.sha256(content).digest()
        return hmac.digest(secret, content, "sha256")


def next_seal(
    keys: SealKeys,
    previous: Seal | None,
    entries: Sequence[AuditEntry],
    at: datetime,
    *,
    pruned_to: int | None = None,
) -> Seal:
    """Without entries it hands over to another key, or, with `pruned_to`, is a checkpoint."""
    end = (0, 0) if previous is None else (previous.last_xact, previous.last_number)
    if entries:
        end = (entries[-1].xact, entries[-1].number)
    kept = 0 if previous is None else previous.pruned_to
    seal = Seal(
        number=1 if previous is None else previous.number + 1,
        last_xact=end[0],
        last_number=end[1],
        entries=len(entries),
        digest=digest_of(entries),
        previous=FIRST if previous is None else previous.hash,
        pruned_to=kept if pruned_to is None else pruned_to,
        key=keys.current,
        hash=b"",
        handover=None,
        at=at,
    )
    content, handover = _content(seal), None
    if previous is not None and previous.key != seal.key:
        handover = keys.hash_of(previous.key, content)
    return msgspec.structs.replace(seal, hash=keys.hash_of(seal.key, content), handover=handover)


def _content(seal: Seal) -> bytes:
    fields: list[Any] = [
        seal.number,
        seal.last_xact,
        seal.last_number,
        seal.entries,
        seal.digest.hex(),
        seal.previous.hex(),
        seal.pruned_to,
        seal.key,
        seal.at.astimezone(UTC).isoformat(timespec="microseconds"),
    ]
    return msgspec.json.encode(fields)


# --- What is wrong with a seal, or None ---


def problem_of_seal(keys: SealKeys, seal: Seal) -> str | None:
    """By itself."""
    if not keys.knows(seal.key):
        key = f"key {seal.key}" if seal.key else "no key"
        return f"seal {seal.number} is made with {key}, which this server does not know"
    if not hmac.compare_digest(seal.hash, keys.hash_of(seal.key, _content(seal))):
        return f"seal {seal.number} was altered"
    return None


def problem_of_link(keys: SealKeys, previous: Seal, seal: Seal) -> str | None:
    """Behind the seal before it; both are well by themselves."""
    if seal.number != previous.number + 1:
        return f"seal {previous.number + 1} is missing"
    if seal.previous != previous.hash:
        return f"seal {seal.number} does not follow from the one before it"
    if seal.key != previous.key:
        if seal.key == UNKEYED:
            return f"seal {seal.number} is made without a key, behind one with a key"
        if seal.handover != keys.hash_of(previous.key, _content(seal)):
            return f"seal {seal.number} changes the key, and the key before did not seal that"
    if not previous.pruned_to <= seal.pruned_to < seal.number:
        return f"seal {seal.number} says that seals up to {seal.pruned_to} were pruned"
    return None


def problem_of_entries(seal: Seal, entries: Sequence[AuditEntry]) -> str | None:
    """`entries` lie between the seal and the one before it."""
    if len(entries) != seal.entries:
        return f"seal {seal.number} closed {seal.entries} entries, {len(entries)} are there"
    if digest_of(entries) != seal.digest:
        return (
            f"an entry among numbers {entries[0].number} to {entries[-1].number} was "
            f"altered (seal {seal.number})"
            if entries
            else f"seal {seal.number} was altered"
        )
    return None


def problem_of_beginning(first: Seal, last: Seal) -> str | None:
    """The oldest seal that is there must be the first of all, or the newest that was pruned."""
    expected = max(1, last.pruned_to)
    if first.number > expected or (first.number == 1 and first.previous != FIRST):
        return f"seal {expected} is missing"
    if first.number < expected:
        return f"seal {first.number} is older than the checkpoint, which is seal {expected}"
    return None


def problem_of_age(pruned: Seal, checkpoint: Seal, cutoff: datetime) -> str | None:
    """Anybody can make a checkpoint without a key: it may not say more than that old entries are
    gone. With one, a server made it, by the setting of its time."""
    if checkpoint.key == UNKEYED and pruned.at >= cutoff:
        return f"seal {pruned.number} is marked as pruned, and is younger than what is kept"
    return None


def problem_of_head(head: Head | None, first: Seal | None, seals: Iterable[Seal]) -> str | None:
    """Whether one of these seals is the exported one by number and not by hash."""
    if head is None or first is None:
        return None
    if head.seal < first.number:
        return (
            f"the head is of seal {head.seal}, and the oldest that is kept is {first.number}: "
            f"check with a newer one"
        )
    for seal in seals:
        if seal.number == head.seal and seal.hash.hex() != head.hash:
            return f"seal {seal.number} is not the one that was exported"
    return None


def problem_of_end(head: Head | None, last: Seal | None) -> str | None:
    if head is None or (last is not None and last.number >= head.seal):
        return None
    end = 0 if last is None else last.number
    return f"the log was cut: it ends at seal {end}, and seal {head.seal} was exported"
