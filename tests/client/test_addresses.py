"""Where the name servers are: lists, NAMESRV_ADDR, DNS names, address servers."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from mqregistry.client.address_server import AddressServer
from mqregistry.client.addresses import NameServerAddress, NameServerAddresses, parse_addresses
from mqregistry.errors import ConfigError, PeerUnavailable
from tests.waiting import until

from .address_servers import FakeAddressServer


@pytest.fixture
def dns(monkeypatch, runner):
    """Names that this test has; anything else is unknown. ``asked`` counts."""
    names: dict[str, list[str]] = {}
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        if host not in names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in ip else socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, port))
            for ip in names[host]
        ]

    monkeypatch.setattr(runner.get_loop(), "getaddrinfo", getaddrinfo)
    names["asked"] = asked
    return names


@contextlib.asynccontextmanager
async def following(addresses, on_change=lambda _: None):
    task = asyncio.create_task(addresses.follow(on_change, least_s=0.001))
    try:
        yield task
    finally:
        assert not task.done(), task
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def shown(addresses):
    return [str(address) for address in addresses]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a:1", [("a", 1)]),
        ("10.0.0.1:9876;10.0.0.2:9877", [("10.0.0.1", 9876), ("10.0.0.2", 9877)]),
        (" a:1 ; b:2; ", [("a", 1), ("b", 2)]),
        ("a", [("a", 9876)]),
        ("[::1]:2", [("::1", 2)]),
        ("http://a:80", [("a", 80)]),
        (["a:1", "b:2;c:3"], [("a", 1), ("b", 2), ("c", 3)]),
    ],
)
def test_a_list(text, found):
    assert parse_addresses(text) == tuple(NameServerAddress(host, port, host) for host, port in found)


@pytest.mark.parametrize(
    "text",
    ["", ";", [], "a:x", "a:", ":1", "a:0", "a:65536", "::1", "[::1", "a b:1", "a:1,b:1", "u@a:1", "ftp://a:1/x",
     "http://:1", "http://a:x/rocketmq/nsaddr", "a:1/x"],
)  # fmt: skip
def test_what_is_no_list(text):
    with pytest.raises(ConfigError, match=r"expected host:port;host:port or http://domain/rocketmq/nsaddr"):
        parse_addresses(text)


def test_the_environment_counts_when_nothing_is_given(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:1;10.0.0.2:2")
    assert shown(NameServerAddresses().current) == ["10.0.0.1:1", "10.0.0.2:2"]
    assert shown(NameServerAddresses("10.0.0.3:3").current) == ["10.0.0.3:3"]
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:none")
    with pytest.raises(ConfigError, match=r"NAMESRV_ADDR: '10.0.0.1:none' is no name server address"):
        NameServerAddresses()
    monkeypatch.setenv("NAMESRV_ADDR", " ")
    with pytest.raises(ConfigError, match="give one, or set NAMESRV_ADDR"):
        NameServerAddresses()


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        (("ns.example",), "http://ns.example:8080/rocketmq/nsaddr"),
        (("ns.example:81",), "http://ns.example:81/rocketmq/nsaddr"),
        (("ns.example", "other"), "http://ns.example:8080/rocketmq/other"),
        (("ns.example", "nsaddr", "unit"), "http://ns.example:8080/rocketmq/nsaddr-unit?nofix=1"),
        (("ns.example", "nsaddr", "../x?y"), "http://ns.example:8080/rocketmq/nsaddr-..%2Fx%3Fy?nofix=1"),
        (("ns.example", "nsaddr", " "), "http://ns.example:8080/rocketmq/nsaddr"),
    ],
)
def test_the_url_of_an_address_server_is_javas(arguments, url):
    assert AddressServer.at(*arguments).url == url


async def test_a_name_stands_for_all_its_ipv4_addresses_or_else_for_its_ipv6_addresses(dns):
    dns |= {"both": ["::1", "10.0.0.1", "10.0.0.2"], "six": ["fd00::1", "fd00::2"]}
    addresses = NameServerAddresses("both:1;six:2;10.0.0.2:1")
    assert shown(addresses.current) == ["10.0.0.2:1"]
    found = await addresses.refresh()
    assert found == addresses.current
    assert shown(found) == ["10.0.0.1:1", "10.0.0.2:1", "[fd00::1]:2", "[fd00::2]:2"]
    assert [address.name for address in found] == ["both", "both", "six", "six"]


async def test_a_name_that_is_not_found_any_more_keeps_its_addresses(dns, caplog):
    dns |= {"one": ["10.0.0.1"], "two": ["10.0.0.2"]}
    addresses = NameServerAddresses("one:1;two:1")
    await addresses.refresh()
    del dns["one"]
    dns["two"] = ["10.0.0.22"]
    for _ in range(3):
        assert shown(await addresses.refresh()) == ["10.0.0.1:1", "10.0.0.22:1"]
    assert caplog.text.count("name server one:1: ") == 1, "said once"


async def test_nothing_found_at_all_says_why(dns):
    with pytest.raises(PeerUnavailable, match=r"no name server address is known: name server one:1: .*Name or service"):
        await NameServerAddresses("one:1").refresh()


async def test_ip_addresses_are_never_looked_up(dns):
    addresses = NameServerAddresses("10.0.0.1:1;10.0.0.2:1", every_s=0.001)
    assert addresses.is_fixed
    async with following(addresses):
        await asyncio.sleep(0.02)  # twenty periods in which it would look
    assert dns["asked"] == []


async def test_follow_looks_at_once_then_periodically_and_tells_changes_only(dns):
    dns["name"] = ["10.0.0.1"]
    addresses, told = NameServerAddresses("name:1", every_s=0.005), []
    async with following(addresses, lambda found: told.append(shown(found))):
        await until(lambda: told)
        await until(lambda: len(dns["asked"]) > 3)
        assert told == [["10.0.0.1:1"]]
        dns["name"] = ["10.0.0.2", "10.0.0.3"]
        await until(lambda: len(told) > 1)
        del dns["name"]
        before = len(dns["asked"])
        await until(lambda: len(dns["asked"]) > before + 3)
    assert told[1:] == [["10.0.0.2:1", "10.0.0.3:1"]]


async def test_follow_looks_when_asked_to(dns):
    dns["name"] = ["10.0.0.1"]
    addresses = NameServerAddresses("name:1", every_s=3600)
    await addresses.refresh()
    async with following(addresses):
        dns["name"] = ["10.0.0.2"]
        await asyncio.sleep(0.01)  # it would have looked by now if it did so by itself
        assert shown(addresses.current) == ["10.0.0.1:1"]
        addresses.look_again_soon()
        await until(lambda: shown(addresses.current) == ["10.0.0.2:1"])


async def test_another_list_while_running(dns):
    dns["name"] = ["10.0.0.1"]
    addresses, told = NameServerAddresses("10.0.0.9:1", every_s=3600), []
    async with following(addresses, lambda found: told.append(shown(found))):
        addresses.replace("name:1")
        assert shown(addresses.current) == ["10.0.0.9:1"], "until the name was looked up"
        await until(lambda: told)
        with pytest.raises(ConfigError):
            addresses.replace("10.0.0.9:none")
        addresses.replace("10.0.0.8:1")
        assert shown(addresses.current) == ["10.0.0.8:1"]
        await until(lambda: len(told) == 2)
    assert told == [["10.0.0.1:1"], ["10.0.0.8:1"]]


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_address_server_is_asked_as_java_does(chunked):
    with FakeAddressServer("10.0.0.1:9876;10.0.0.2:9876\r\n10.0.0.3:9876\n", chunked=chunked) as server:
        addresses = NameServerAddresses(AddressServer.at(server.domain))
        assert addresses.current == ()
        assert shown(await addresses.refresh()) == ["10.0.0.1:9876", "10.0.0.2:9876"], "its first line"
        assert server.asked == ["/rocketmq/nsaddr"]
        mixed = NameServerAddresses(f"10.0.0.9:1;http://{server.domain}/rocketmq/nsaddr-unit?nofix=1")
        assert shown(await mixed.refresh()) == ["10.0.0.9:1", "10.0.0.1:9876", "10.0.0.2:9876"]
        assert server.asked[1:] == ["/rocketmq/nsaddr-unit?nofix=1"]


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (404, "10.0.0.1:1", "status 404, expected 200"),
        (200, "", "an empty answer, expected host:port"),
        (200, "<html>", "'<html>' is no name server address"),
        (200, "http://a/b", "names another address server, http://a/b: expected host:port"),
        (200, "x" * 70000, "an answer of more than 65536 bytes"),
    ],
)
async def test_an_address_server_that_answers_nonsense_changes_nothing(status, text, why):
    with FakeAddressServer("10.0.0.1:1") as server:
        addresses = NameServerAddresses(AddressServer.at(server.domain))
        await addresses.refresh()
        server.status, server.text = status, text
        assert shown(await addresses.refresh()) == ["10.0.0.1:1"]
        with pytest.raises(PeerUnavailable, match=why):
            await NameServerAddresses(AddressServer.at(server.domain)).refresh()


async def test_an_address_server_that_is_away_silent_or_no_http_server():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = NameServerAddresses(AddressServer.at(f"127.0.0.1:{silent.getsockname()[1]}"), timeout_s=0.05)
        with pytest.raises(PeerUnavailable, match=r"no answer within 0\.05 s"):
            await addresses.refresh()
    with pytest.raises(PeerUnavailable, match=r"address server http://127.0.0.1:"):
        await addresses.refresh()
    server = await asyncio.start_server(lambda _, writer: (writer.write(b"hello\r\n"), writer.close()), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PeerUnavailable, match="no HTTP answer"):
            await NameServerAddresses(AddressServer.at(f"127.0.0.1:{port}")).refresh()
