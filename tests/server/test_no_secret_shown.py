"""Secrets and signatures, looked for wherever something of a front end can be read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Role
from mqregistry.auth.signature import sign
from mqregistry.auth.users import Secret
from mqregistry.protocol.command import Command, encode_command
from mqregistry.store.store import Store

from .auth_bed import ADMIN, Caller, Rules, broker_user, secret_of, user
from .harness import Broker, Client, wait_until
from .serving import Serving

NEW = "the-new-secret-of-alice"
SECRETS = [secret_of("alice"), secret_of("ops"), secret_of("root"), NEW, "a wrong secret"]


@pytest.fixture
def place(tmp_path, redis_url):
    """A front end that logs all it can, in a namespace with users, before any request."""
    serving = Serving(tmp_path, redis_url, forked=False, log_level="debug", workers=2)
    rules = Rules(redis_url, serving.namespace)
    try:
        rules.begin("enforce", broker_user("alice", "broker-a"), user("ops", Role.OPERATOR))
        wait_until(lambda: serving.metrics().get("auth_revision", 0) == rules.read().revision, "it is in force")
        yield serving, rules
    finally:
        serving.close()
        rules.close()


def use_it(serving, rules) -> tuple[set[str], str]:
    """Use and misuse secrets in every way; returns the signatures that were sent, and what 319 showed."""
    sent: set[str] = set()

    class Remembering(Caller):
        def signed(self, ext, body):
            fields = super().signed(ext, body)
            if fields and "Signature" in fields:
                sent.add(fields["Signature"])
            return fields

    port = serving.port
    with Remembering(port, "alice") as alice, Remembering(port, "ops") as ops, Remembering(port, "root") as root:
        assert alice.register(Broker()).code == 0
        assert alice.register(Broker()).code == 0
        assert (
            alice.request(904, {"clusterName": "c1", "brokerName": "broker-a", "brokerAddr": "127.0.0.1:10911"}).code
            == 0
        )
        assert alice.request(103, {"brokerAddr": "x"}, b"no body").code == 16
        for _ in range(4):
            assert alice.route("topic1").code == 0
        assert ops.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 0
        assert root.request(318, None, b"productEnvName=x").code == 0
        assert root.request(216, {"topic": "\x00"}).code == 1  # an error with a text of its own
        with Remembering(port, "alice", "a wrong secret") as wrong:
            assert wrong.register(Broker()).code == 16
        with Remembering(port, "alice", "a wrong secret") as wrong:
            lookup = Command(code=105, opaque=1, version=479, ext_fields=wrong.signed({"topic": "T"}, b""))
            wrong.socket.sendall(b"\0\0\0\1" + encode_command(lookup))  # no frame
            assert wrong.closed()
        shown = root.request(319).body.decode()
        rules.change(lambda policy: changes.add_secret(policy, "alice", Secret("new", NEW)))
        wait_until(lambda: serving.metrics()["auth_revision"] == rules.read().revision, "the new secret is in force")
        with Remembering(port, "alice", NEW) as alice:
            assert alice.register(Broker(counter=2)).code == 0
    sent.add(sign("a wrong secret", {"AccessKey": "alice"}))
    return sent, shown


def everything_of(serving, rules, redis_url) -> dict[str, str]:
    """What can be read of a front end, by where."""
    command = [sys.executable, "-m", "mqregistry"]
    where = ["--redis", redis_url, "--namespace", serving.namespace]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}

    def run(*words: str) -> str:
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, env=environ)
        return done.stdout + done.stderr

    pids = [serving.process.pid, *(worker.pid for worker in serving.workers())]
    found = {
        "the log": serving.log,
        "/metrics": serving.get("/metrics").body.decode(),
        "/readyz": serving.get("/readyz").body.decode(),
        "-p": run("serve", "-p", *where),
        "config export": run("config", "export", *where),
        "kv export": run("kv", "export", *where),
        **{f"/proc/{pid}/{file}": Path(f"/proc/{pid}/{file}").read_bytes().decode(errors="replace")
           for pid in pids for file in ("cmdline", "environ", "comm")},
    }  # fmt: skip
    for key in rules.redis.keys(f"mq*{{{serving.namespace}}}:*"):
        name = key.decode()
        if name.endswith("}:users") and name.startswith("mqauth:"):
            continue  # the one place where secrets are
        found[f"Redis {name}"] = str(rules.redis.dump(key)) + str(
            rules.redis.xrange(key) if rules.redis.type(key) == b"stream" else ""
        )
    return found


def test_no_secret_and_no_signature_is_shown_anywhere(place, redis_url):
    serving, rules = place
    signatures, shown = use_it(serving, rules)
    wait_until(lambda: len(rules.refused()) >= 2, "what was refused is noted")
    found = everything_of(serving, rules, redis_url) | {"319": shown}
    assert len(signatures) > 8
    assert secret_of("alice") in str(rules.redis.hgetall(f"mqauth:{{{serving.namespace}}}:users"))
    for where, text in found.items():
        for secret in (*SECRETS, *signatures):
            assert secret not in text, f"{secret} in {where}"
    assert "alice" in found["the log"], "names are"


def test_a_crash_shows_no_secret(place, redis_url, tmp_path):
    """Workers that die of a signal."""
    serving, rules = place
    signatures, _ = use_it(serving, rules)
    for worker in serving.workers():
        worker.send_signal(6)  # SIGABRT
    wait_until(lambda: "killed by SIGABRT" in serving.log, "they died")
    for secret in (*SECRETS, *signatures):
        assert secret not in serving.log


# What a defect is: it raises where the secrets, the signature and the request are at hand.
DEFECT = """
from mqregistry.server.auth.authorization import Authorization

look = Authorization._look

def broken(self, command, sender, caller, *more):
    topic = (command.ext_fields or {}).get("topic")
    if topic == "defect":
        raise RuntimeError("a defect")
    if topic == "crash":
        raise BaseException("a crash")
    return look(self, command, sender, caller, *more)

Authorization._look = broken
"""


def test_the_trace_of_a_defect_shows_no_secret(tmp_path, redis_url, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(DEFECT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONASYNCIODEBUG", "1")  # traces say more
    serving = Serving(tmp_path, redis_url, forked=False, log_level="debug")
    with contextlib.closing(Rules(redis_url, serving.namespace)) as rules, contextlib.closing(serving):
        rules.begin("enforce", broker_user("alice", "broker-a"), user("ops", Role.OPERATOR))
        serving.wait_until(lambda: serving.metrics()["auth_revision"] == rules.read().revision, "it is in force")
        sent = set()
        for topic, code in itertools.product(("defect", "crash"), (105, 216)):
            with Caller(serving.port, "ops") as ops:
                ext = ops.signed({"topic": topic}, b"")
                sent.add(ext["Signature"])
                Client.send(ops, code, ext)
        serving.wait_until(lambda: "RuntimeError: a defect" in serving.log, "the trace of the defect")
        serving.wait_until(lambda: "BaseException: a crash" in serving.log, "the trace of the crash")
        assert "Traceback (most recent call last)" in serving.log
        for secret in (*SECRETS, *sent):
            assert secret not in serving.log


def test_the_lake_holds_no_secret_and_no_signature(place, redis_url, tmp_path):
    """Bronze and silver, with what the pipeline's reader and its meaning of events make of that front end's streams."""
    pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
    import pyarrow.parquet as pq

    from mqregistry.pipeline.lake.lake import Lake
    from tests.pipeline.plain_lake import PlainSilver, put_changes
    from tests.pipeline.world import entries

    serving, rules = place
    signatures, _ = use_it(serving, rules)
    lake = Lake(str(tmp_path / "lake"))

    async def read() -> list[tuple[str, str]]:
        async with Store(redis_url, serving.namespace) as store:
            return await entries(store)

    found = asyncio.run(read())
    silver = PlainSilver()
    silver.take([e for _, e in found])
    silver.write(lake, serving.namespace, "e")
    put_changes(lake, serving.namespace, "e", found)
    files = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    texts = {path: path.read_bytes().decode(errors="replace") for path in files}
    tables = [path for path in files if path.suffix == ".parquet"]
    texts |= {path: str(pq.ParquetFile(path).read().to_pylist()) for path in tables}
    assert {path.relative_to(tmp_path / "lake").parts[0] for path in tables} >= {"bronze", "silver"}, tables
    assert any("'alice'" in text or '"alice"' in text for text in texts.values()), "names are"
    for path, text in texts.items():
        for secret in (*SECRETS, *signatures):
            assert secret not in text, f"{secret} in {path}"


def test_values_that_hold_secrets_show_none(place):
    _, rules = place
    policy = rules.read()
    for shown in (repr(policy.users), str(policy), repr(ADMIN), repr(list(policy.users.values()))):
        assert not any(secret in shown for secret in SECRETS)
