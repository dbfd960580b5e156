import pytest

from taskforge.domain.addresses import find_client, is_among, parse_networks, share_of
from taskforge.domain.errors import Invalid

PROXIES = parse_networks("trusted_proxies", "127.0.0.1, 10.0.0.0/24, fd00::/8")


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", ["198.51.100.1"], "203.0.113.9"),  # no proxy of ours: it says what it likes
        ("127.0.0.1", [], "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", ["6.6.6.6, 198.51.100.1"], "198.51.100.1"),  # the caller began the list
        ("127.0.0.1", ["6.6.6.6", "198.51.100.1"], "198.51.100.1"),  # in two headers
        ("127.0.0.1", ["198.51.100.1, 10.0.0.7"], "198.51.100.1"),  # two proxies of ours
        ("127.0.0.1", ["10.0.0.7"], "10.0.0.7"),  # a proxy that asks for itself
        ("127.0.0.1", ["198.51.100.1, rubbish"], "127.0.0.1"),
        ("127.0.0.1", ["6.6.6.6, rubbish, 10.0.0.7"], "10.0.0.7"),
        ("127.0.0.1", [""], "127.0.0.1"),
        ("127.0.0.1", ["198.51.100.1:4711"], "198.51.100.1"),
        ("127.0.0.1", ["[2001:db8::1]:4711"], "2001:db8::1"),
        ("127.0.0.1", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:127.0.0.1", ["198.51.100.1"], "198.51.100.1"),
        ("fd00::1", ["198.51.100.1"], "198.51.100.1"),
        ("127.0.0.1", [", ".join(["10.0.0.7"] * 1_000)], "10.0.0.7"),
    ],
)
def test_who_asks(peer: str, forwarded: list[str], client: str) -> None:
    assert find_client(peer, forwarded, PROXIES) == client


def test_without_proxies_nobody_is_believed() -> None:
    assert find_client("127.0.0.1", ["198.51.100.1"], ()) == "127.0.0.1"


@pytest.mark.parametrize("text", ["proxy", "10.0.0.0/99", "10.0.0", "10.0.0.1;10.0.0.2"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no address or network"):
        parse_networks("trusted_proxies", text)


def test_an_address_of_version_6_is_counted_with_its_network() -> None:
    assert share_of("2001:db8:1:2:3::4") == share_of("2001:db8:1:2:ffff::1")
    assert share_of("2001:db8:1:2::1") != share_of("2001:db8:1:3::1")
    assert share_of("::ffff:192.0.2.1") == share_of("192.0.2.1") == "192.0.2.1"
    assert not is_among("nonsense", PROXIES)
