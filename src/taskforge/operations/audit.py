"""The audit log's keys, its head outside the store, and its check."""

import asyncio
import hmac
import logging
from pathlib import Path

from taskforge.domain.audit_chain import ChainCheck, Head, SealKey, SealKeys
from taskforge.domain.urls import is_loopback
from taskforge.settings import Settings
from taskforge.storage.records.audit_seals import AuditSeals

logger = logging.getLogger("taskforge.audit")


def seal_keys(settings: Settings) -> SealKeys:
    """The keys for seals, the present one first; what is derived from the secret made seals before
    a key was set."""
    secrets = [key.encode() for key in settings.audit_keys]
    if settings.secret:
        secrets.append(hmac.digest(settings.secret.encode(), b"taskforge audit", "sha256"))
    return SealKeys([SealKey.of(secret) for secret in secrets])


def tell_unkeyed(settings: Settings) -> None:
    """A server says once, at its start, that its audit log has no key."""
    if settings.audit_keys or settings.secret:
        return
    level = logging.INFO if is_loopback(settings.host) else logging.WARNING
    logger.log(
        level,
        "the audit log is sealed without a key: whoever writes to the store can compute its seals "
        "anew, and only an exported head shows it; set audit_key or audit_key_file",
    )


class AuditHeads:
    """Exports the head, and checks the log against an exported one."""

    def __init__(self, seals: AuditSeals, settings: Settings) -> None:
        self._seals = seals
        self._file = Path(settings.audit_head_file) if settings.audit_head_file else None
        self._days = settings.audit_days
        self._exported: Head | None = None

    async def export(self) -> None:
        """To the file, or to the log, if it is another than the last time."""
        seal = await self._seals.head()
        if seal is None or Head.of(seal) == self._exported:
            return
        head = Head.of(seal)
        if self._file is None:
            logger.info("the head of the audit log is %s", head)
        else:
            line = f"{seal.at.isoformat(timespec='seconds')} {head}\n"
            await asyncio.to_thread(_append, self._file, line)
        self._exported = head

    async def verify(self, head: Head | None) -> ChainCheck:
        return await self._seals.verify(self._days, head)


def last_head(file: Path) -> Head:
    """The last one that was exported to a file."""
    lines = file.read_text(encoding="utf-8").split()
    return Head.parse(lines[-1] if lines else "")


def _append(file: Path, line: str) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(line)
