"""How someone gets into a store that is new."""

from taskforge.domain.access import KEY_PERMISSIONS, PLATFORM_ORGANIZATION, system
from taskforge.domain.audit import Note
from taskforge.operations.platform import Platform

OWNER = "owner@localhost"
_SYSTEM = Note("system", "first.start", PLATFORM_ORGANIZATION)


async def first_credentials(platform: Platform, address: str) -> tuple[str, str] | None:
    """On the first start: a one-time login link and an API key, which nobody sees again."""
    if not await platform.accounts.is_first_start():
        return None
    token = await platform.accounts.login_secret(OWNER, PLATFORM_ORGANIZATION, _SYSTEM)
    return f"{address}/login?token={token}", await make_key(platform, "first key")


async def make_key(platform: Platform, name: str) -> str:
    """A key with every right in the first organization, for whoever has the store in hand."""
    _, secret = await platform.keys.create(
        system(), None, name, "key", sorted(KEY_PERMISSIONS), None, _SYSTEM
    )
    return secret
