"""``mqregistry config``: the shared configuration, out of one namespace and into another."""

from __future__ import annotations

import asyncio
import json

import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.store.config_writes import KvStore
from mqregistry.store.snapshot import read_head, read_tables
from mqregistry.store.store import Store

SHARED = {"orderMessageEnable": "true", "brokerChannelExpiredTimeMs": "90000", "rocketmqHome": " /opt:x=1"}


@pytest.fixture
def config(redis_url):
    """Runs a command on a namespace, which is made first."""

    def run(namespace, *arguments, expect=0):
        async def make():
            async with Store(redis_url, namespace) as store:
                await store.connect()

        asyncio.run(make())
        result = CliRunner(env={"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}).invoke(
            cli, ["config", *arguments]
        )
        assert result.exit_code == expect, result.output
        return result

    return run


@pytest.fixture
def stored(redis_url):
    def read(namespace, **changes):
        async def work():
            async with Store(redis_url, namespace) as store:
                await store.connect()
                if changes:
                    await KvStore(store).set_config(changes)
                return (await read_tables(store))[1].config, (await read_head(store)).seq

        return asyncio.run(work())

    return read


def test_what_export_prints_import_takes_elsewhere(config, stored, namespace, tmp_path):
    stored(namespace, **SHARED)
    file = tmp_path / "shared.properties"
    file.write_text(config(namespace, "export").stdout)
    other = f"{namespace}-2"
    assert "orderMessageEnable=true\n" in config(other, "import", str(file)).stdout
    assert stored(other)[0] == SHARED
    seq = stored(other)[1]
    assert config(other, "import", str(file)).stdout == "0 set, 3 the same\n"
    assert stored(other)[1] == seq
    assert json.loads(config(other, "export", "--json").stdout) == SHARED


def test_nothing_set_is_an_empty_page(config, namespace):
    assert config(namespace, "export").stdout == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("orderMessageEnable=true\nlistenPort=1", r":2: listenPort belongs to one process"),
        ("orderMessageEnable=perhaps", "orderMessageEnable=perhaps: expected"),
        ("newInThree=1", r":1: newInThree: there is no such setting"),
        ("a=\\u12", "hexadecimal"),
    ],
)
def test_a_file_that_no_front_end_would_follow_is_refused_as_a_whole(config, stored, namespace, tmp_path, text, reason):
    file = tmp_path / "bad.properties"
    file.write_text(text)
    assert reason.strip(":") in config(namespace, "import", str(file), expect=1).stderr
    assert stored(namespace)[0] == {}


@pytest.mark.parametrize("key", ["supportActingMaster=true", "scanNotActiveBrokerInterval=1000"])
def test_a_key_that_the_compat_mode_of_the_namespace_does_not_know_is_refused(redis_url, namespace, tmp_path, key):
    async def make():
        async with Store(redis_url, namespace, compat="4.8") as store:
            await store.connect()

    asyncio.run(make())
    file = tmp_path / "shared.properties"
    file.write_text(f"orderMessageEnable=true\n{key}\n")
    environ = {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}
    result = CliRunner(env=environ).invoke(cli, ["config", "import", str(file)])
    assert result.exit_code == 1
    assert (
        f":2: {key.partition('=')[0]} has no effect in this namespace, which behaves like NameServer 4.8"
        in result.stderr
    )
    assert CliRunner(env=environ).invoke(cli, ["config", "export"]).stdout == ""


def test_set_and_get_of_single_keys(config, stored, namespace):
    told = config(namespace, "set", "orderMessageEnable=true", "brokerChannelExpiredTimeMs=90000").stdout
    assert told == "orderMessageEnable=true\nbrokerChannelExpiredTimeMs=90000\n2 set, 0 the same\n"
    assert config(namespace, "set", "orderMessageEnable=true").stdout == "0 set, 1 the same\n"
    assert config(namespace, "get", "brokerChannelExpiredTimeMs").stdout == "90000\n"
    shown = json.loads(config(namespace, "get", "orderMessageEnable", "--json").stdout)
    assert shown == {"key": "orderMessageEnable", "value": "true"}
    told = config(namespace, "get", "none", expect=1).output
    assert "none is not set for all front ends; these are: brokerChannelExpiredTimeMs, orderMessageEnable" in told


@pytest.mark.parametrize(
    ("assignments", "reason", "code"),
    [
        (("orderMessageEnable=true", "listenPort=1"), "listenPort belongs to one process", 1),
        (("orderMessageEnable=perhaps",), "orderMessageEnable=perhaps: expected", 1),
        (("newInThree=1",), "newInThree: there is no such setting", 1),
        (("orderMessageEnable",), "expected KEY=VALUE", 2),
    ],
)
def test_a_key_that_no_front_end_would_follow_is_not_set(config, stored, namespace, assignments, reason, code):
    assert reason in config(namespace, "set", *assignments, expect=code).output
    assert stored(namespace)[0] == {}
