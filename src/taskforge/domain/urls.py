"""Addresses as people write them into settings: of a store, of a server, of a provider of
sign-on. What no driver could read is told here."""

import ipaddress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from taskforge.domain import rules
from taskforge.domain.errors import Invalid

WRITABLE_SESSIONS = ("any", "primary", "read-write")


def check_store_url(field: str, value: Any) -> str:
    """What no driver could read is told here. Parts of it are not repeated: they may be of a
    password."""
    text = rules.text(field, value, most=2_000)
    if _cuts_a_password(text):
        like = (
            _like(text).replace("://", "://user:password@").replace("password@user@", "password@")
        )
        expected = (
            f"write it like {like}, with %2F for /, %3F for ?, %23 for # and %40 for @ in "
            f"a password"
        )
        raise Invalid(field, "its password, or another part, holds / ? # or @ as it is", expected)
    try:
        for host in urlsplit(text).netloc.rpartition("@")[2].split(","):  # PostgreSQL takes several
            _ = urlsplit(f"//{host}").port
    except ValueError as error:
        if "port" in str(error).lower():
            raise Invalid(
                field, "its port is not a number from 0 to 65535", f"write it like {_like(text)}"
            ) from None
        expected = (
            f"write it like {_like(text)}; an IPv6 address stands in [ ], and a password "
            f"has %5B and %5D for them"
        )
        raise Invalid(field, "it cannot be read", expected) from None
    check_sqlite_url(field, text)
    _check_session(field, text)
    return text


def _check_session(field: str, url: str) -> None:
    """Of several hosts, one that can be written to is wanted."""
    given = dict(parse_qsl(urlsplit(url).query)).get("target_session_attrs")
    if url.startswith("postgres") and given is not None and given not in WRITABLE_SESSIONS:
        expected = (
            "leave it out, or use read-write or primary: jobs are written where they are read"
        )
        raise Invalid(field, f"its target_session_attrs is {given!r}", expected)


def _cuts_a_password(url: str) -> bool:
    """Whether a URL of a server has an @ behind its host: then a password was cut off at its first
    / ? or #, and the rest of it would be shown as a path. Or two: drivers differ in which of them
    ends the password."""
    if url.lower().startswith("sqlite:"):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    rest = parts.path + parts.fragment + ("" if parts.path else parts.query)
    return "@" in rest or parts.netloc.count("@") > 1


def check_sqlite_url(field: str, url: str) -> None:
    """In a URL # and ? end the path: a file of another name than the one meant would be made.
    Behind ? the project may stand."""
    if not url.lower().startswith("sqlite:"):
        return
    path, mark, query = url.partition("?")
    meant = "if the file has it in its name, write "
    if "#" in url:
        raise Invalid(field, "has a # in it", f"{meant}{url.replace('#', '%23')}")
    if mark and not all(part.startswith("project=") for part in query.split("&")):
        raise Invalid(field, "has a ? in it", f"{meant}{path}%3F{query}")


def _like(url: str) -> str:
    if url.startswith("sqlite:"):
        return "sqlite:///path/to/file.db"
    return (
        "postgresql://user@host:5432/database"
        if url.startswith("postgres")
        else "https://server:8080"
    )


def check_public_url(field: str, value: Any) -> str:
    text = rules.text(field, value, least=0, most=500)
    if text and not text.startswith(("https://", "http://")):
        raise Invalid(field, f"is {text!r}", "use an address such as https://jobs.example.com")
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_issuer(field: str, value: Any) -> str:
    """As it is written: a provider's name for itself may end with a slash, and is compared as a
    whole."""
    text = rules.text(field, value, least=0, most=500)
    if not text:
        return text
    try:
        parts = urlsplit(text)
        local = parts.scheme == "http" and is_loopback(parts.hostname or "")
    except ValueError:
        raise Invalid(
            field, f"is {text!r}", "use an address such as https://accounts.example.com"
        ) from None
    if (
        not parts.hostname
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or not (parts.scheme == "https" or local)
    ):
        raise Invalid(
            field, f"is {text!r}", "use an https address such as https://accounts.example.com"
        )
    return text
