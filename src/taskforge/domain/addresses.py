"""Whose request it is: the address that connected, or, behind proxies that an operator has named,
the one that they say they act for."""

import ipaddress
from collections.abc import Sequence

from taskforge.domain.errors import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MOST_HOPS = 20  # of a list that a stranger may have begun
# Whoever has one IPv6 address has the 2^64 beside it too.
_ONES_OWN = 64


def parse_networks(field: str, text: str) -> tuple[Network, ...]:
    """Addresses and networks with commas between them."""
    return tuple(_network(field, part.strip()) for part in text.split(",") if part.strip())


def _network(field: str, text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise Invalid(
            field,
            f"{text!r} is no address or network",
            "use addresses such as 10.0.0.7 or networks such as 10.0.0.0/24, with commas between",
        ) from None


def is_among(address: str, networks: Sequence[Network]) -> bool:
    parsed = _parsed(address)
    return parsed is not None and any(parsed in network for network in networks)


def find_client(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """The nearest address that is no proxy of ours. Each proxy adds whom it got the request from to
    the end of the list, so the list is believed from its end on, and only as far as proxies reach:
    what stands before that, a stranger may have written."""
    client = peer
    if not proxies or not is_among(peer, proxies):
        return client
    hops = [hop.strip() for line in forwarded for hop in line.split(",")][-MOST_HOPS:]
    for hop in reversed(hops):
        parsed = _parsed(_without_port(hop))
        if parsed is None:
            return client
        client = str(parsed)
        if not is_among(client, proxies):
            return client
    return client


def share_of(address: str) -> str:
    """Under which name an address is counted: IPv6 by the network that one customer gets."""
    parsed = _parsed(address)
    if not isinstance(parsed, ipaddress.IPv6Address):
        return address if parsed is None else str(parsed)
    return str(ipaddress.ip_network((parsed, _ONES_OWN), strict=False))


def _parsed(text: str) -> Address | None:
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _without_port(hop: str) -> str:
    """Some proxies write 192.0.2.1:4711 or [2001:db8::1]:4711."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    host, colon, _ = hop.partition(":")
    return host if colon and hop.count(":") == 1 else hop
