"""Addresses that tenants name, and that the platform itself connects to: which of them it may
reach. A name is looked up when the connection is made, and what it stands for is judged then."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from taskforge.domain import rules
from taskforge.domain.addresses import Address, Network
from taskforge.domain.errors import Invalid, TaskForgeError

MOST_CHARACTERS = 2_000
# What the special-purpose registries of IANA keep from the public internet, by what it is. In IPv6
# only 2000::/3 is given out at all; what stands here is taken from it again.
_CLOSED_4 = {
    "0.0.0.0/8": "unspecified",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by the customers of a carrier",
    "127.0.0.0/8": "loopback",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "reserved",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "reserved",
    "192.52.193.0/24": "reserved",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "reserved",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_CLOSED_6 = {
    "::/128": "unspecified",
    "::1/128": "loopback",
    "2001::/32": "a Teredo tunnel",
    "2001::/23": "reserved",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a 6to4 tunnel",
    "2620:4f:8000::/48": "reserved",
    "3fff::/20": "for documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "private",
    "ff00::/8": "multicast",
}
_PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # NAT64: the last 32 bits are an IPv4 address
_ISATAP = (0x00005EFE, 0x02005EFE)
_CLOSED: list[tuple[Network, str]] = [
    (ipaddress.ip_network(text), why) for text, why in (_CLOSED_4 | _CLOSED_6).items()
]
# Resolvers read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses: a last part that is a number.
_ENDS_IN_A_NUMBER = re.compile(r"(?:^|\.)(?:[0-9]+|0[xX][0-9a-fA-F]*)\.?$")
_LIKE = "use an address such as https://example.com/hooks"


class TargetRefused(TaskForgeError):
    """The platform does not connect to this address."""


class TargetFailed(TaskForgeError):
    """There was no connection, or no whole answer in time."""


def check_target(field: str, value: Any, opened: Sequence[Network] = ()) -> str:
    """What can be told without looking up the name. `opened` are the networks that the platform's
    owner opened."""
    text = rules.text(field, value, most=MOST_CHARACTERS)
    if not text.isascii() or any(character in ' \\<>"{}|^`' for character in text):
        expected = f"{_LIKE}, with other characters as %20"
        raise Invalid(field, "holds a space or a character that no address has", expected)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Invalid(field, f"is {text!r}, which cannot be read", _LIKE) from None
    if parts.scheme not in ("https", "http") or not host or port == 0:
        raise Invalid(field, f"is {text!r}", _LIKE)
    if "@" in parts.netloc:
        raise Invalid(field, "holds a user or a password", "leave them out: requests are signed")
    if "#" in text:
        raise Invalid(field, "holds a #, and what is behind it is never sent", "leave it out")
    if parts.scheme == "http" and not opened:
        raise Invalid(field, "is not encrypted", "use https")
    if (address := read_address(host)) is not None:
        if (why := refusal(address, opened)) is not None:
            raise Invalid(field, f"is {why}", "use an address on the public internet")
    elif _ENDS_IN_A_NUMBER.search(host):
        raise Invalid(field, f"its host {host!r} is a number", "write it as 192.0.2.7 is written")
    elif (host == "localhost" or host.endswith(".localhost")) and not opened:
        raise Invalid(field, "is this machine", "use an address on the public internet")
    return text


def read_address(host: str) -> Address | None:
    """The address that is written there, in its one usual form; None: it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def refusal(address: Address, opened: Sequence[Network] = ()) -> str | None:
    """Why the platform does not connect to it; None: it does."""
    if any(address in network for network in opened):
        return None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            why = refusal(inner, opened)
            return None if why is None else f"{address}, which stands for {why}"
    for network, why in _CLOSED:
        if address in network:
            return f"{address}, which is {why}"
    if isinstance(address, ipaddress.IPv6Address):
        if address not in _PUBLIC_6:
            return f"{address}, which is reserved"
        if int(address) >> 32 & 0xFFFFFFFF in _ISATAP:
            return f"{address}, which is an ISATAP tunnel"
    return None
