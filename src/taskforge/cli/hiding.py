"""Keeps a password out of the process list, which every user of a machine may read."""

import os
import sys
from collections.abc import Sequence
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

PASSWORD = "PGPASSWORD"  # noqa: S105 - the name of a variable, which PostgreSQL's drivers know


def hide_password(arguments: Sequence[str]) -> None:
    """Start anew where `--url` holds a password: with the same arguments, the password in the
    environment instead of the URL."""
    for position, argument in enumerate(arguments):
        flag, _, joined = argument.partition("=")
        if flag != "--url":
            continue
        url = joined or (arguments[position + 1] if position + 1 < len(arguments) else "")
        bare, password = split_password(url)
        # Whoever calls this inside a program of their own has other arguments than its process.
        is_the_process = list(sys.orig_argv[-len(arguments) :]) == list(arguments)
        if password is None or os.name != "posix" or not is_the_process:
            return
        said = [word.replace(url, bare) for word in sys.orig_argv[1:]]
        os.execve(sys.executable, [sys.executable, *said], os.environ | {PASSWORD: password})  # noqa: S606 - no shell, and the very command


def split_password(url: str) -> tuple[str, str | None]:
    """A PostgreSQL URL without its password, and the password, if it has one."""
    try:
        parts = urlsplit(url)
        password = None if parts.password is None else unquote(parts.password)
    except ValueError:
        return url, None  # whoever reads the settings says what is wrong with it
    if parts.scheme not in ("postgresql", "postgres") or parts.netloc.count("@") > 1:
        return url, None
    user, _, host = parts.netloc.rpartition("@")
    netloc = f"{user.partition(':')[0]}@{host}" if user else host
    query = parse_qsl(parts.query, keep_blank_values=True)
    named = [value for name, value in query if name == "password"]
    if password is None and not named:
        return url, None
    rest = urlencode([(name, value) for name, value in query if name != "password"])
    bare = urlunsplit((parts.scheme, netloc, parts.path, rest, parts.fragment))
    return bare, named[-1] if password is None else password
