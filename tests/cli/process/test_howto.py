"""The pages of docs/howto, done on real processes: their commands, configuration files and messages are true."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import subprocess

import pytest
import redis

from bench.servers.processes import free_port
from bench.servers.redis_servers import RedisProcess
from mqregistry.cli.help.entries import entries

from ...server.harness import wait_until
from .world import COMMAND, ROOT, World


def page(name: str) -> str:
    return (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", "\n".join(blocks(text, "console")), re.M)


class Shell:
    """A shell in the folder of a world, which knows the command ``mqregistry``."""

    def __init__(self, world: World) -> None:
        self.folder = world.folder / "work"
        self.folder.mkdir()
        program = world.folder / "bin" / "mqregistry"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
        program.chmod(0o700)
        self._env = {**world.env, "PATH": f"{program.parent}:{os.environ['PATH']}"}

    def run(self, command: str, expect: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self._env, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == expect, (command, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def shell(world):
    return Shell(world)


RESTORED = "mqregistry kv get ORDER_TOPIC_CONFIG orders && mqregistry config get orderMessageEnable"


def test_backup_all_of_it_is_restored(world, shell):
    (backup,), (restore,), exports, imports, save, copy = (
        commands(block)
        for block in re.split(r"^To restore it|^## Export|^To bring them|^## R|^## T", page("backup"), flags=re.M)
    )
    up = world.up()
    shell.run(
        "mqregistry kv put -y ORDER_TOPIC_CONFIG orders broker-a:4 && mqregistry config set orderMessageEnable=true"
    )
    spoilt = "mqregistry kv delete -y ORDER_TOPIC_CONFIG orders && mqregistry config set orderMessageEnable=false"
    shell.run(backup)
    for command in exports:
        shell.run(command)
    shell.run(spoilt)
    for command in imports:
        shell.run(command)
    assert shell.run(RESTORED).split() == ["broker-a:4", "true"]
    (bgsave,) = save
    assert f"$ {bgsave}\n{shell.run(bgsave)}" in page("backup")
    folder = world.folder / "data" / "mqregistry"
    wait_until((folder / "dump.rdb").exists, "the file is there")
    shell.run(spoilt)
    assert up.interrupt() == 0
    for command in copy:
        shell.run(command.replace("~/.local/share", str(world.folder / "data")))
    assert list((world.folder / "mqregistry-backup").glob("appendonly*"))

    shell.run(restore)
    up = world.up()
    assert shell.run(RESTORED).split() == ["broker-a:4", "true"]
    shell.run(spoilt)
    assert up.interrupt() == 0

    for path in folder.glob("appendonly*"):
        path.rename(world.folder / f"away-{path.name}")
    up = world.up()
    assert "loading dump.rdb there" in up.err
    assert shell.run(RESTORED).split() == ["broker-a:4", "true"]
    assert up.interrupt() == 0


def test_backup_redis_file_is_restored_in_a_redis_of_your_own(world, shell):
    up = world.up()
    shell.run(
        "mqregistry kv put -y ORDER_TOPIC_CONFIG orders broker-a:4 && mqregistry config set orderMessageEnable=true"
    )
    shell.run("mqregistry redis-cli SAVE")
    assert up.interrupt() == 0
    # RedisProcess starts with appendonly no
    with RedisProcess(world.folder / "redis") as server:
        server.kill()
        (world.folder / "data" / "mqregistry" / "dump.rdb").rename(server.folder / "dump.rdb")
        server.start()
        assert server.call("CONFIG", "SET", "appendonly", "yes") == b"OK"
        wait_until(lambda: server.call("INFO", "persistence")["aof_rewrite_in_progress"] == 0, "it is written")
        server.kill()
        (server.folder / "dump.rdb").unlink()
        config = server.folder / "redis.conf"
        config.write_text(config.read_text().replace("appendonly no", "appendonly yes"))
        server.start()
        assert shell.run(f"export MQREGISTRY_REDIS={server.url}; {RESTORED}").split() == ["broker-a:4", "true"]


def test_tls_certificates_front_end_and_clients(world, shell):
    text = page("tls")
    *make, probe = commands(text)
    for command in make:
        shell.run(command)
    shell.run("openssl verify -x509_strict -CAfile ca.pem ns1.pem")  # as Python does from 3.13 on
    server, clients = blocks(text, "properties")
    config = shell.folder / "namesrv.properties"
    world.cwd = shell.folder
    for properties, refused in ((server, False), (server + clients, True)):
        config.write_text(properties)
        up = world.up("-c", config)
        here = probe.replace("ns1.example.com:9876", f"127.0.0.1:{up.port}")
        plain = here.removesuffix(" --tls-ca ca.pem")
        assert shell.run(here, expect=int(refused)).split() != []
        shell.run(plain, expect=int(refused))
        if refused:
            shell.run(f"{here} --tls-cert ns1.pem --tls-key ns1.key")
        assert up.interrupt() == 0


def test_sentinel_set_up_as_the_page_says_fails_over(world, shell):
    text = page("sentinel")
    redis_conf, replica_of, sentinel_conf = blocks(text, "text")
    serve = commands(text)[:2]
    failover, look, who_is_master = commands(text)[2:5]
    own = re.compile(r"^(?:#|port|bind).*\n", re.M)  # of this machine
    first = RedisProcess(world.folder / "r1", own.sub("", redis_conf).splitlines())
    second = RedisProcess(world.folder / "r2")
    sentinels = [RedisProcess(world.folder / f"s{number}", sentinel=True) for number in (1, 2, 3)]
    try:
        first.start()
        second.options = [*first.options, replica_of.strip().replace("10.0.0.1 6379", f"127.0.0.1 {first.port}")]
        second.start()
        for sentinel in sentinels:
            sentinel.options = (
                own.sub("", sentinel_conf).replace("10.0.0.1 6379", f"127.0.0.1 {first.port}").splitlines()
            )
            sentinel.start()
        export, start = serve
        for number, sentinel in enumerate(sentinels, 1):
            export = export.replace(f"10.0.0.{number}:26379", sentinel.address)
        world.env["MQREGISTRY_REDIS"] = export.removeprefix("export MQREGISTRY_REDIS=")
        wrong = world.run("clusters", "--redis", world.env["MQREGISTRY_REDIS"].replace("/mymaster", "/other"), expect=1)
        assert "the Sentinels know no master of this name" in wrong.stderr
        port = free_port()
        front_end = world.start(*start.split()[1:], "--host", "127.0.0.1", "--port", port, "--http-port", 0)
        front_end.wait_for("boot success")
        words = failover.split("26379 ")[1].split()

        def failed_over() -> bool:
            if second.call("ROLE")[0] == b"master":
                return True
            with contextlib.suppress(redis.ResponseError):  # it does not know the replica yet, or is at it
                sentinels[0].call(*words)
            return False

        wait_until(failed_over, "the replica is the master")
        shell._env["MQREGISTRY_REDIS"] = world.env["MQREGISTRY_REDIS"]
        (said,) = re.findall(r"`(Sentinel names another master, )10", text)
        front_end.wait_for(f"{said}{second.address}")
        assert sentinels[0].call(*who_is_master.split("26379 ")[1].split()) == second.address.encode().split(b":")
        wait_until(lambda: " ready " in shell.run(look), "the front end follows it")
        assert front_end.interrupt() == 0
    finally:
        for server in (*sentinels, second, first):
            server.kill()


# Messages of RocketMQ, its clients and Redis.
OTHERS = {
    "No route info of this topic", "No topic route info in name server", "connect to … failed",
    "No writable message queue", "NO_PERMISSION", "SYSTEM_BUSY", "TooLongFrameException", "NOPERM",
}  # fmt: skip


def test_every_message_of_troubleshooting_is_one_of_ours():
    texts = []
    for folder in ("registry", "worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
                elif isinstance(node, ast.JoinedStr):
                    texts.append("".join(
                        part.value if isinstance(part, ast.Constant) else "…" for part in node.values
                    ))  # fmt: skip
    messages = [message for entry in entries().values() for message in entry.messages]
    assert len(messages) > 40
    assert set(messages) >= OTHERS
    for message in set(messages) - OTHERS:
        ours = re.escape(message).replace("…", "[^`]*")
        assert any(re.search(ours, said) for said in texts), message
