"""Passwords, users with the least rights, TLS."""

from __future__ import annotations

import asyncio
import os
import re

import pytest
import redis

from bench.servers.redis_servers import HOST, RedisProcess
from mqregistry.errors import ConfigError, StoreError, StoreUnavailable
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.connection.asyncio_client import open_client
from mqregistry.store.connection.url import PASSWORD_VARIABLE, is_open_to_others, parse_url, without_password
from mqregistry.store.snapshot import read_tables
from mqregistry.store.store import Store

from ..forked import run_command
from ..server.fleet import beating, watching
from ..server.harness import Broker
from .servers import TlsProxy, make_certificates
from .service import alike, settled


@pytest.fixture
def guarded(folder):
    with RedisProcess(
        folder / "node", ["requirepass pass/word", "appendonly no"], login={"password": "pass/word"}
    ) as server:
        yield server


async def test_password_in_the_url_and_in_the_environment(guarded, own_namespace, monkeypatch):
    async with Store(f"redis://:pass%2Fword@{guarded.address}", own_namespace) as store:
        assert (await store.connect()).created
    monkeypatch.setenv(PASSWORD_VARIABLE, "pass/word")
    async with Store(guarded.url, own_namespace) as store:
        assert not (await store.connect()).created
        await store.call("put_kv", "ns", "k", "1", "v")
    async with Store(f"redis://:other@{guarded.address}", own_namespace) as store:  # the URL's goes first
        with pytest.raises(StoreError, match="refuses this login"):
            await store.connect()


def test_password_in_the_environment_reaches_the_front_ends(guarded, front_end_with, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "pass/word")
    front_end = front_end_with(guarded.url)
    with front_end.client() as client:
        assert client.register(Broker()).code == 0
        assert client.route("topic1").code == 0


@pytest.mark.parametrize("login", ["", ":wrong@", "nobody:pass%2Fword@"])
async def test_wrong_login_is_a_clear_error(guarded, own_namespace, login):
    async with Store(f"redis://{login}{guarded.address}", own_namespace) as store:
        with pytest.raises(StoreError, match=f"refuses this login.*{PASSWORD_VARIABLE}") as caught:
            await store.connect()
    assert "pass" not in str(caught.value).replace("password", "").replace("PASSWORD", "").replace("username-pass", "")


async def test_missing_right_is_a_clear_error(guarded, own_namespace):
    commands = ("info", "eval", "evalsha", "hset", "hexists", "hmget", "time")
    user = ["on", ">x", "~mq:*", "~mqauth:*", *(f"+{command}" for command in commands)]
    guarded.call("ACL", "SETUSER", "limited", *user)
    async with Store(f"redis://limited:x@{guarded.address}", own_namespace) as store:
        await store.connect()
        with pytest.raises(StoreError, match=r"lacks a right.*ACL LOG.*users\.acl"):  # inside of the script
            await store.call("put_kv", "ns", "k", "1", "v")
        with pytest.raises(StoreError, match=r"lacks a right.*'xread'"):
            await ChangeReader(store, "0-0").read(block_ms=0)
    async with Store(f"redis://limited:x@{guarded.address}", "x", timeout_ms=500) as store:
        guarded.call("ACL", "SETUSER", "limited", "resetkeys", "~other:*")
        with pytest.raises(StoreError, match="lacks a right"):
            await store.connect()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def behind_tls(folder, certificates):
    _, certificate, key = certificates
    with RedisProcess(folder / "node") as server:
        proxy = TlsProxy(server.port, certificate, key)
        yield server, proxy
        proxy.close()


async def test_tls_with_a_ca_of_ones_own(behind_tls, certificates, own_namespace):
    server, proxy = behind_tls
    where = f"rediss://{HOST}:{proxy.port}"
    async with Store(f"{where}?ssl_ca_certs={certificates[0]}", own_namespace, timeout_ms=10_000) as store:
        assert (await store.connect()).created
        await asyncio.gather(*(store.call("put_kv", "ns", f"k{i}", "1", "v" * 20_000) for i in range(20)))
        assert len((await read_tables(store))[1].kv["ns"]) == 20
    async with Store(f"{where}?ssl_cert_reqs=none", own_namespace, timeout_ms=10_000) as store:
        assert not (await store.connect()).created
    async with Store(where, own_namespace) as store:
        with pytest.raises(StoreUnavailable, match=r"(?i)certificate"):
            await store.connect()
    async with Store(f"redis://{HOST}:{proxy.port}", own_namespace, timeout_ms=500) as store:  # no TLS
        with pytest.raises(StoreUnavailable):
            await store.connect()
    async with Store(f"rediss://{server.address}?ssl_cert_reqs=none", own_namespace, timeout_ms=500) as store:
        with pytest.raises(StoreUnavailable):
            await store.connect()


def test_tls_front_ends_end_to_end(behind_tls, certificates, front_end_with):
    url = f"rediss://{HOST}:{behind_tls[1].port}?ssl_ca_certs={certificates[0]}"
    front_ends = [front_end_with(url), front_end_with(url)]
    with beating([Broker()], front_ends), watching(front_ends, {"topic1": {"broker-a"}}):
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: settled(f), "it follows the stream")
        assert alike(front_ends, ["topic1", "topic2"])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://h?ssl_ca_cert=x", "no option 'ssl_ca_cert'"),
        ("redis://h?ssl_ca_certs=x", "begins with rediss"),
        ("redis+sentinel://h/m?ssl_ca_certs=x", "begins with rediss"),
        ("redis://h?sentinel_password=x", "no option 'sentinel_password'"),
        ("redis+sentinel://h", "names no master"),
        ("redis+sentinel://h/m/x", "ends with no database number"),
        ("redis+cluster://h/3", "no databases but 0"),
        ("redis://h:port", "cannot be read"),
        ("http://h", "none of"),
        ("h:6379", "none of"),
    ],
)
def test_url_that_is_none_is_a_clear_error(url, message):
    with pytest.raises(ConfigError, match=message):
        open_client(url, timeout_ms=100, max_connections=1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:change-me@h", "the password is that of the example, which everybody knows"),
        ("redis://u:change-me-5@127.0.0.1:1", "the password is that of the example"),
        ("redis+sentinel://:x@h/m?sentinel_password=change-me-4", "the password is that of the example"),
        ("redis+cluster://u:change-me@h", "the password is that of the example"),
        ("unix://u:change-me@/s", "the password is that of the example"),
        ("redis://u@h", "names a user, and there is no password: set MQREGISTRY_REDIS_PASSWORD"),
        ("redis://u:@h", "names a user, and there is no password"),
        ("redis+cluster://u@h", "names a user, and there is no password"),
    ],
)
def test_login_that_protects_nothing_is_refused(url, message, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "")
    with pytest.raises(ConfigError, match=message) as caught:
        open_client(url, timeout_ms=100, max_connections=1)
    assert "change-me" not in str(caught.value)


def test_example_password_in_the_environment_starts_nothing(guarded, tmp_path):
    """Not a front end, not a sweeper, and no command that looks."""
    environ = {**os.environ, PASSWORD_VARIABLE: "change-me"}
    guarded.call("CONFIG", "SET", "requirepass", "change-me")
    try:
        for command, code in (("serve", 253), ("sweep", 253), ("clusters", 2)):
            ended = run_command(command, "--redis", guarded.url, env=environ, cwd=tmp_path)
            assert ended.returncode == code, ended.stderr
            assert "the password is that of the example" in ended.stderr
            assert "Traceback" not in ended.stderr
    finally:
        with redis.Redis(HOST, guarded.port, password="change-me") as admin:
            admin.config_set("requirepass", "pass/word")


@pytest.mark.parametrize(
    ("url", "is_open"),
    [
        ("redis://10.0.0.1", True),
        ("redis://redis:6379/0", True),
        ("redis+cluster://127.0.0.1,10.0.0.1", True),
        ("redis+sentinel://a/m", True),
        ("redis://:x@10.0.0.1", False),
        ("redis+cluster://:x@10.0.0.1", False),
        ("rediss://10.0.0.1?ssl_certfile=me.pem", False),
        ("redis://127.0.0.1:6379", False),
        ("redis://localhost", False),
        ("redis://[::1]:6379", False),
        ("redis+cluster://127.0.0.1,127.0.0.2", False),
        ("unix:///run/redis.sock", False),
    ],
)
def test_redis_elsewhere_without_a_password_is_noticed(url, is_open, monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, "")
    assert is_open_to_others(url) == is_open
    monkeypatch.setenv(PASSWORD_VARIABLE, "chosen")
    assert not is_open_to_others(url)


async def test_redis_elsewhere_without_a_password_is_warned_of(folder, own_namespace, monkeypatch, caplog):
    monkeypatch.setattr("mqregistry.store.connection.fitness.is_open_to_others", lambda url: True)
    with RedisProcess(folder / "node") as server:
        async with Store(server.url, own_namespace) as store:
            await store.connect()
    assert "anybody who reaches it can change every route" in caplog.text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://u:secret@h:1/0?db=1", "redis://***@h:1/0?db=1"),
        ("redis+sentinel://:secret@a,b/m?sentinel_username=s&sentinel_password=secret&db=1",
         "redis+sentinel://***@a,b/m?sentinel_username=s&sentinel_password=***&db=1"),
        ("unix:///path/redis.sock?db=0", "unix:///path/redis.sock?db=0"),
    ],
)  # fmt: skip
def test_url_is_shown_without_its_passwords(url, shown):
    assert without_password(url) == shown


SECRETS = ["qza/qzb#qzc?qzd", "qza@qzb", "qza[qzb", "qza]qzb", "qza%qzb", "qza:qzb@qzc/qzd?qze#qzf", "@qza", "qza@",
           "qza qzb", "qzaéqzb", "qza&qzb=qzc"]  # fmt: skip
URLS = [
    "redis://u:{}@h:1/0", "redis://:{}@h", "rediss://u:{}@h:1/0?db=1", "redis://{}@h", "redis://u:{}@h:port/0",
    "redis+sentinel://u:{}@a,b/m", "redis+cluster://u:{}@a:1,b:2", "redis+sentinel://a/m?sentinel_password={}",
    "reddis://u:{}@h:1/0", "redis:/u:{}@h", "redis:u:{}@h", "u:{}@h:6379", "{}", "redis://u:{}", "redis://h:{}",
    "http://u:{}@h",
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_of_a_password_is_shown_whatever_its_characters(url, secret):
    """54 forms and more, quoted or not: in what is shown of a URL, and in what is said of one that cannot be read."""
    if url.endswith(":{}") and "@" in secret:
        return  # what stands behind the @ is the host
    whole = url.format(secret)
    said = without_password(whole)
    for open_it in (lambda: parse_url(whole), lambda: open_client(whole, timeout_ms=1000, max_connections=1)):
        try:
            open_it()
        except ConfigError as error:
            said += f"\n{error}\n{error.__cause__ or ''}"
    for piece in re.findall("qz[a-f]", secret):
        assert piece not in said, said


async def test_demoted_server_is_left_though_it_hangs_up_on_nobody(folder, own_namespace):
    """A demotion by hand, or an address in front of several servers: the next call looks for the master anew."""
    with RedisProcess(folder / "a") as server, RedisProcess(folder / "b") as other, server.client() as admin:
        async with Store(server.url, own_namespace, max_connections=1) as store:
            await store.connect()
            before = {one["id"] for one in admin.client_list()}
            admin.replicaof(HOST, other.port)
            with pytest.raises(StoreUnavailable, match="not the master any more"):
                await store.call("put_kv", "ns", "key", "1", "v")
            admin.replicaof("NO", "ONE")
            await store.connect()
            kept = before & {one["id"] for one in admin.client_list() if one["cmd"] != "client|list"}
            assert kept <= {str(admin.client_id())}
