"""The data folder of a release, kept, so that later releases and servers can be tried on it.

    python -m tests.cli.process.data_folder tests/cli/process/data_folders/0.1.0

has the release that runs write one, for its successors. It holds a little of everything that a registry keeps for good,
in an append-only file that was rewritten once, as that of any older registry was: tables first, then the commands
since. ``kept.json`` says what was in it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import redis

from mqregistry.embedded import EmbeddedRedis

from ...server.harness import Broker, wait_until
from .world import World

KV = {"namespace": "ORDER_TOPIC_CONFIG", "key": "bills"}
MASTER = Broker("broker-a", "10.0.0.1:10911", topics={"orders": (8, 8, 6), "bills": (4, 4, 6), "gone": (1, 1, 6)})
SLAVE = Broker("broker-a", "10.0.0.2:10911", broker_id=1, topics=MASTER.topics)
OTHER = Broker("broker-b", "10.0.1.1:10911", cluster="c2", topics={"orders": (16, 16, 6), "münze": (2, 2, 4)})


def everything(client: redis.Redis) -> dict[str, Any]:
    """Every key that does not run out, with all that it holds."""
    read = {
        b"string": client.get,
        b"hash": lambda key: dict(sorted(client.hgetall(key).items())),
        b"set": lambda key: sorted(client.smembers(key)),
        b"list": lambda key: client.lrange(key, 0, -1),
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"stream": client.xrange,
    }
    found = {key: read[client.type(key)](key) for key in client.scan_iter() if client.pttl(key) == -1}
    return {as_json(key): as_json(value) for key, value in sorted(found.items())}


def as_json(value: Any) -> Any:
    """The same of what JSON has: bytes as text, tuples as lists."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {as_json(key): as_json(one) for key, one in value.items()}
    return [as_json(one) for one in value] if isinstance(value, list | tuple) else value


def kept_by(folder: Path) -> dict[str, Any]:
    with EmbeddedRedis(folder) as server, redis.Redis.from_url(server.url) as client:
        return everything(client)


def write(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mq") as name:
        data = Path(name) / "d"
        world = World(Path(name))
        try:
            up = world.up("--data-dir", data)
            with up.client() as client, redis.Redis(unix_socket_path=str(data / "redis.sock")) as server:
                assert client.register(MASTER).code == 0
                assert client.request(100, {**KV, "value": "before"}).code == 0
                server.bgrewriteaof()
                wait_until(lambda: not server.info("persistence")["aof_rewrite_in_progress"], "it is rewritten")
                assert client.register(SLAVE).code == client.register(OTHER).code == 0
                assert client.request(100, {**KV, "value": "broker-a:4"}).code == 0
                assert client.request(216, {"topic": "gone"}).code == 0
                assert client.request(205, {"brokerName": "broker-b"}).code == 0
                assert client.request(318, {}, b"orderMessageEnable=true\n").code == 0
                world.run("auth", "user", "add", "alice", "--role", "client", "--network", "10.9.0.0/16")
                assert up.interrupt() == 0
        finally:
            world.close()
        folder.mkdir(parents=True)
        shutil.copy(data / "appendonly.aof", folder)
        (folder / "kept.json").write_text(json.dumps(kept_by(data), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
