"""Networks and addresses of peers."""

from __future__ import annotations

import pytest

from mqregistry.networks import Networks, canonical_network, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80::1"),
        ("", None),
        ("unix", None),
    ],
)
def test_addresses(text, address):
    found = parse_address(text)
    assert (None if found is None else str(found)) == address


def test_a_network_has_one_form():
    assert canonical_network(" 10.0.0.1 ") == "10.0.0.1/32"
    assert canonical_network("::ffff:10.0.0.0/104") == "10.0.0.0/8"
    assert canonical_network("2001:DB8::/32") == "2001:db8::/32"
    with pytest.raises(ValueError, match="host bits"):
        canonical_network("10.0.0.1/8")


@pytest.mark.parametrize(
    ("text", "has", "has_not"),
    [
        ("", [], ["127.0.0.1", "::1", ""]),
        ("10.0.0.0/8; ::1;", ["10.255.0.1", "::1", "::ffff:10.0.0.1"], ["11.0.0.1", "::2", "unix", "10.0.0.1:5"]),
        ("fe80::/10", ["fe80::1%eth0"], ["10.0.0.1"]),
        ("::ffff:10.0.0.0/104", ["10.1.2.3"], ["11.0.0.1", "::1"]),
        ("0.0.0.0/0", ["192.0.2.1"], ["::1", ""]),
    ],
)
def test_who_is_in_a_list(text, has, has_not):
    networks = Networks.of_setting(text)
    assert [host for host in has + has_not if networks.has_host(host)] == has
