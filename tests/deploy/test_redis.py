"""redis.conf and users.acl on a real server: everything works with these rights, and nothing else does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import msgspec
import pytest
import redis

from mqregistry.auth.changes import add_user, edit_user
from mqregistry.auth.rights import Role
from mqregistry.console.app import PAGES
from mqregistry.errors import StoreError, StoreUnavailable
from mqregistry.store import keys, scripts
from mqregistry.store.change_reader import ChangeReader
from mqregistry.store.store import Store

from ..console.conftest import Running
from ..forked import run_command
from ..server.auth_bed import Rules, secret_of, user
from ..server.fleet import beating, watching
from ..server.harness import Broker, FrontEnd, wait_until
from ..store.bed import Bed
from ..topology.everything import use_everything
from ..topology.servers import sentinel_setup
from ..topology.service import SweeperProcess, alike, settled
from .files import acl_text, environment, granted, login, password, text

# What redis-py and our reads send beside the scripts; the last four to a Redis Cluster, or for a database number.
CLIENT_COMMANDS = {
    "ping",
    "info",
    "eval",
    "evalsha",
    "script|load",
    "xread",
    "hgetall",
    "select",
    "command",
    "cluster|slots",
    "asking",
}
BROKERS = [Broker("broker-a", "127.0.0.1:10911", topics=["topic1", "only-a"])]


@pytest.fixture
def no_denials(deployed):
    """Nothing that runs in a test is refused by the server."""
    deployed.call("ACL", "LOG", "RESET")
    yield
    assert deployed.call("ACL", "LOG") == []


async def test_store_is_content_with_this_configuration(deployed, namespace, no_denials, caplog):
    with caplog.at_level(logging.WARNING):
        async with Store(login(deployed, "mqregistry"), namespace) as store:
            assert (await store.connect()).created
    # That the server is old says nothing of its configuration.
    assert [told for told in caplog.messages if "CVE-2025-49844" not in told] == []


def test_every_setting_is_in_effect(deployed):
    with deployed.client() as client:
        for line in text("redis.conf").splitlines():
            name, _, value = line.partition(" ")
            if not line or name in ("#", "bind", "port", "dir", "aclfile", "client-output-buffer-limit"):
                continue
            found = client.config_get(name).get(name)
            if found is None:  # Valkey has no dynamic-hz any more, and takes the line all the same
                assert name == "dynamic-hz"
                continue
            number = re.fullmatch(r"(\d+)mb", value)
            assert found == (str(int(number[1]) << 20) if number else value.strip('"')), line


async def test_every_script_and_read_runs_with_these_rights(deployed, namespace, no_denials):
    async with Store(login(deployed, "mqregistry") + "/0", namespace) as store:
        await store.connect()
        await use_everything(Bed(store))


async def test_rights_are_those_that_scripts_and_reads_use(deployed):
    """Neither fewer nor more."""
    commands = {_text(row[0]) for row in deployed.call("EVAL", "return redis.call('COMMAND')", 0)}
    used = set(CLIENT_COMMANDS)
    for script in scripts.load().values():
        code = re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", script.source, flags=re.S)
        used |= {word.lower() for word in re.findall(r'"([A-Z]+)"', code)} & commands
    used = used - {"memory"} | {"memory|usage"}  # MEMORY has others, which look into the server
    assert granted("mqregistry") == used


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


def test_front_ends_and_sweeper_run_with_these_rights(deployed, namespace, no_denials, monkeypatch):
    """Logged in as the environment file says."""
    monkeypatch.setenv("MQREGISTRY_REDIS_PASSWORD", password("mqregistry"))
    url = re.sub(r"@[\w:]+", f"@{deployed.address}", environment()["MQREGISTRY_REDIS"])
    front_ends, sweeper = [], None
    try:
        front_ends = [FrontEnd(url, namespace) for _ in range(2)]
        sweeper = SweeperProcess(url, namespace)
        with beating(BROKERS, front_ends), watching(front_ends, {"only-a": {"broker-a"}}):
            for front_end in front_ends:
                front_end.wait_until(lambda f=front_end: settled(f), "it follows the stream")
            wait_until(lambda: alike(front_ends, ["topic1", "only-a"]), "both answer alike")
        for front_end in front_ends:
            front_end.wait_until(lambda f=front_end: f.poll().get("brokers_alive") == 0, "closed connections are told")
        assert "failed" not in sweeper.log
        front_ends[0].kill(15)
        assert "ERROR" not in front_ends[0].log
    finally:
        for one in (*front_ends, *([sweeper] if sweeper else ())):
            one.close()


def test_operators_commands_run_with_these_rights(deployed, namespace, no_denials):
    asyncio.run(_fill(login(deployed, "mqregistry"), namespace))
    seen = {}
    tables = ("clusters", "brokers", "topics", "route t1", "tables")
    for command in (*tables, "watch --from-start -n 1", "streams", "front-ends"):
        ended = run_command(
            *command.split(), "--json", "--namespace", namespace, "--redis", login(deployed, "mqoperator"),
            env={**os.environ, "MQREGISTRY_REDIS_PASSWORD": ""},
        )  # fmt: skip
        assert ended.returncode == 0, f"{command}: {ended.stderr}"
        seen[command] = ended.stdout
    assert "10.0.0.1:10911" in seen["brokers"]
    assert json.loads(seen["route t1"])
    ended = run_command("route", "T1x", "--namespace", namespace, "--redis", login(deployed, "mqoperator"))
    assert ended.returncode == 1
    assert "right" not in ended.stderr


def _can_fill(url, namespace):
    """Sentinels agree on the new master one after the other."""
    try:
        asyncio.run(_fill(url, namespace))
    except StoreUnavailable:
        return False
    return True


async def _fill(url, namespace):
    async with Store(url, namespace) as store:
        await store.connect()
        await Bed(store).register(topics=["t1", "t2"])


@pytest.mark.parametrize(
    "command",
    ["KEYS *", "FLUSHALL", "FLUSHDB", "CONFIG GET *", "SHUTDOWN", "ACL LIST", "DEBUG SLEEP 0", "CLIENT LIST",
     "GET mq:x", "LPUSH mq:x 1", "HGET other x", "SET other 1", "SCRIPT FLUSH", "REPLICAOF NO ONE", "MONITOR",
     "CLUSTER RESET", "SUBSCRIBE x", "COPY mq:a mq:b", "SWAPDB 0 1", "MIGRATE h 1 k 0 1"],
)  # fmt: skip
def test_other_commands_and_keys_are_refused(deployed, command):
    with (
        redis.Redis.from_url(login(deployed, "mqregistry")) as client,
        pytest.raises(redis.exceptions.ResponseError, match=r"permissions to|DEBUG command not allowed"),
    ):
        client.execute_command(*command.split())


@pytest.mark.parametrize("key", ["used", "refusals"])
def test_a_console_with_a_login_reaches_no_more_of_authentication_than_it_shows(deployed, key, namespace):
    with redis.Redis.from_url(login(deployed, "mqconsole")) as client:
        for command in (("HGETALL", key), ("XRANGE", key, "-", "+")):
            words = [command[0], keys.auth_prefix(namespace) + command[1], *command[2:]]
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


def test_a_console_with_a_login_runs_with_these_rights(deployed, namespace, no_denials, tmp_path):
    """As mqconsole: users log in, every page answers, and a user that is disabled is out."""
    filled = login(deployed, "mqregistry")
    asyncio.run(_fill(filled, namespace))
    rules = Rules(filled, namespace)
    for name in ("ops", "another-admin"):
        rules.change(lambda policy, name=name: add_user(policy, user(name, Role.ADMIN)))
    process = Running(login(deployed, "mqconsole"), namespace, tmp_path, "--login")
    try:
        with httpx.Client(base_url=process.url, follow_redirects=True) as browser:
            form = {"name": "ops", "secret": secret_of("ops")}
            page = browser.post("/login", data=form, headers={"origin": process.url})
            assert ">ops<" in page.text
            for path in PAGES:
                if path not in ("/events", "/actions", "/action", "/report/page", "/dismiss", "/changes/{seq}/undo"):
                    name = {"/topic": "t1", "/broker": "broker-a", "/cluster": "c1"}.get(path)
                    answer = browser.get(path.format(seq=1), params={"name": name} if name else None)
                    assert answer.status_code == 200, answer.text
            rules.change(
                lambda policy: edit_user(policy, "ops", lambda one: msgspec.structs.replace(one, enabled=False))
            )
            wait_until(lambda: "Log in" in browser.get("/kv").text, "the console noticed")
    finally:
        process.end()
    assert "NOPERM" not in process.err


def test_a_console_with_a_login_says_which_redis_login_it_needs(deployed, namespace, tmp_path):
    asyncio.run(_fill(login(deployed, "mqregistry"), namespace))
    ended = subprocess.run(
        [sys.executable, "-m", "mqregistry", "console", "--login", "--port", "0", "--namespace", namespace,
         "--redis", login(deployed, "mqoperator"), "--checkpoints", tmp_path],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 253
    assert "Log in to Redis as mqconsole of deploy/users.acl" in ended.stderr


@pytest.mark.parametrize("user", ["mqoperator", "mqpipeline"])
@pytest.mark.parametrize("command", ["HGETALL {}users", "HGET {}policy mode", "XRANGE {}refusals - +"])
def test_only_front_ends_reach_users_and_secrets(deployed, user, command, namespace):
    key = keys.auth_prefix(namespace)
    words = command.format(key).split()
    with redis.Redis.from_url(login(deployed, "mqregistry")) as client:
        client.eval("return redis.call(unpack(ARGV))", 1, f"{key}users", *words)
    with redis.Redis.from_url(login(deployed, user)) as client:
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*words)
        with pytest.raises(redis.ResponseError, match=r"can't|permissions"):  # a key that it does not declare
            client.eval("return redis.call(unpack(ARGV))", 1, f"mq:{{{namespace}}}:meta", *words)


@pytest.mark.parametrize("user", ["mqoperator", "mqconsole", "mqpipeline"])
async def test_who_may_not_set_a_mode_makes_no_namespace(deployed, namespace, user):
    """Else it would have none, and be off."""
    async with Store(login(deployed, "mqregistry"), f"{namespace}-other") as store:
        await store.connect()  # a script that is not loaded is refused for that
    async with Store(login(deployed, user), namespace) as store:
        with pytest.raises(StoreError, match="lacks a right"):
            await store.init_namespace()
        assert not await _exists(deployed, namespace)


async def _exists(deployed, namespace):
    async with Store(login(deployed, "mqregistry"), namespace) as store:
        return await store.exists()


def test_operator_has_no_command_that_writes(deployed):
    with deployed.client() as client:
        flags = {name: info["flags"] for name, info in client.command().items()}
    assert [c for c in sorted(granted("mqoperator")) if "write" in flags[c.partition("|")[0]]] == []


async def test_strangers_get_nowhere(deployed, namespace):
    for url in (
        deployed.url,
        f"redis://:{password('mqregistry')}@{deployed.address}",
        f"redis://mqregistry:x@{deployed.address}",
    ):
        async with Store(url, namespace) as store:
            with pytest.raises(StoreError, match="refuses this login"):
                await store.connect()


async def test_operator_changes_nothing_and_is_told_why(deployed, namespace):
    async with Store(login(deployed, "mqregistry"), namespace) as store:
        await store.connect()
        await store.call("put_kv", "ns", "key", "1", "mine")  # a script that is not loaded is refused for that
        written = await ChangeReader(store, "0-0").read(block_ms=0)
    async with Store(login(deployed, "mqoperator"), namespace) as store:
        with pytest.raises(StoreError, match="lacks a right"):
            await store.call("put_kv", "ns", "key", "1", "v")
        assert await ChangeReader(store, "0-0").read(block_ms=0) == written


def test_sentinel_fails_over_with_the_users_of_the_readme(tmp_path, namespace):
    lines = re.findall(r"^user (?:replicator|sentinel) .*$", acl_text("README.md"), re.M)
    assert len(lines) == 2
    (tmp_path / "users.acl").write_text(acl_text() + "\n".join(lines) + "\nuser tester on >tester ~* &* +@all\n")
    front_end = f"//mqregistry:{password('mqregistry')}@"
    with tempfile.TemporaryDirectory(prefix="mq") as folder:
        setup = sentinel_setup(
            Path(folder),
            node_options=[
                f"aclfile {tmp_path / 'users.acl'}", "masteruser replicator", f"masterauth {password('replicator')}"
            ],
            sentinel_options=[
                "sentinel auth-user mymaster sentinel", f"sentinel auth-pass mymaster {password('sentinel')}"
            ],
            login={"username": "tester", "password": "tester"},
        )  # fmt: skip
        with setup as sentinel:
            old, new = sentinel.master, sentinel.replica
            asyncio.run(_fill(sentinel.url.replace("//", front_end), namespace))
            wait_until(sentinel.caught_up, "the replica has it all")
            old.kill()
            sentinel.wait_for_failover(new)
            wait_until(lambda: _can_fill(sentinel.url.replace("//", front_end), namespace), "writes")
            assert new.call("ACL", "LOG") == []
