"""At which addresses a broker will hardly be reached, given where its connection comes from."""

from __future__ import annotations

import pytest

from mqregistry.networks import why_unreachable

ELSEWHERE = "10.0.0.9:40000"


@pytest.mark.parametrize(
    ("addr", "sender", "why"),
    [
        ("127.0.0.1:10911", ELSEWHERE, "only itself"),
        ("127.0.0.1:10911", "127.0.0.1:40000", ""),
        ("127.0.1.1:10911", "[::ffff:10.0.0.9]:40000", "only itself"),
        ("localhost:10911", ELSEWHERE, "only itself"),
        ("[::1]:10911", "[2001:db8::9]:40000", "only itself"),
        ("[::1]:10911", "[::1]:40000", ""),
        ("169.254.3.4:10911", ELSEWHERE, "same link"),
        ("169.254.3.4:10911", "169.254.3.5:40000", ""),
        ("[fe80::1]:10911", "[2001:db8::9]:40000", "same link"),
        ("0.0.0.0:10911", "127.0.0.1:40000", "no address"),
        ("172.17.0.2:10911", ELSEWHERE, "Docker"),
        ("172.17.0.2:10911", "172.17.0.1:40000", ""),
        ("10.0.0.1:10911", ELSEWHERE, ""),
        ("broker.example.org:10911", ELSEWHERE, ""),
        ("127.0.0.1:10911", "?", ""),
        ("", ELSEWHERE, ""),
    ],
)
def test_why_others_will_hardly_reach_it(addr, sender, why):
    found = why_unreachable(addr, sender)
    assert (why in found) if why else found == ""
