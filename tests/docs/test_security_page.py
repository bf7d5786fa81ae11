"""The way from ``off`` to ``enforce`` that docs/security.md describes, step by step, with its own commands.

Clients that speak the protocol as stock peers do stand for these; tests/interop has the stock ones.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from mqregistry.protocol.codes import RequestCode
from tests.forked import run_command
from tests.server.auth_bed import Caller, Rules, refused_with
from tests.server.harness import Broker, wait_until
from tests.server.serving import Serving

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
CLUSTER = "DefaultCluster"
OLD_BROKER_HOST, FORGOTTEN_HOST = "127.0.0.2", "127.0.0.3"
DELETED = {"topic": "old"}


def section(title: str) -> str:
    return PAGE.split(f"\n{title}\n")[1].split("\n## ")[0].split("\n### ")[0]


def runbook() -> dict[int, list[str]]:
    """Number of a step -> its commands, from blocks and from the text."""
    steps = re.split(r"^(\d)\. ", section("## From `off` to `enforce`"), flags=re.M)[1:]
    commands = re.compile(r"^ *\$ (mqregistry auth .*)$|`(mqregistry auth [^`]*)`", re.M)
    return {
        int(number): [block or inline for block, inline in commands.findall(text)]
        for number, text in zip(steps[::2], steps[1::2], strict=True)
    }


def recipe(title: str) -> str:
    """What the block of a recipe says."""
    found = re.search(r"```\w+\n(.*?)```", section(title), re.S)
    assert found is not None
    return found[1]


class Site:
    """A namespace from before there were rules, its front end, and the operator's shell."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.serving = Serving(folder, redis_url)
        self.rules = Rules(redis_url, self.serving.namespace)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MQREGISTRY_")}
        self._env = plain | {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": self.serving.namespace}

    def run(self, command: str) -> str:
        """Run a command, wait until it is in force, and return what it printed."""
        words = shlex.split(command, comments=True)
        assert words[0] == "mqregistry"
        done = run_command(*words[1:], env=self._env | {"COLUMNS": "400"})
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        revision = self.rules.read().revision
        self.serving.wait_until(lambda: self.serving.metrics()["auth_revision"] >= revision, f"{command} is in force")
        return done.stdout

    def mends(self, command: str) -> list[str]:
        """The last column of what ``auth observe`` prints."""
        return re.findall(r"  (mqregistry auth .*?) *$", self.run(command), re.M)

    def close(self) -> None:
        self.serving.close()
        self.rules.close()


@pytest.fixture
def site(tmp_path, redis_url):
    site = Site(tmp_path, redis_url)
    try:
        yield site
    finally:
        site.close()


def test_the_runbook_leads_from_off_to_enforce_and_nobody_who_was_told_of_is_refused(site: Site):
    steps = runbook()
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    port = site.serving.port
    site.run("mqregistry auth mode off")  # as namespaces of older releases are
    signs = Broker("broker-a", cluster=CLUSTER, topics=["topic1", "old"])
    old = Broker("broker-b", f"{OLD_BROKER_HOST}:10911", cluster=CLUSTER)
    forgotten = Broker("broker-c", f"{FORGOTTEN_HOST}:10911", cluster=CLUSTER)
    with (
        Caller(port) as broker_a, Caller(port, source=OLD_BROKER_HOST) as broker_b,
        Caller(port, source=FORGOTTEN_HOST) as broker_c, Caller(port) as tool, Caller(port) as client,
        Caller(port) as stranger,
    ):  # fmt: skip

        def day() -> None:
            """Everybody does what he does on a day."""
            for peer, broker in ((broker_a, signs), (broker_b, old)):
                assert peer.register(broker).code == 0
            assert tool.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, DELETED).code == 0
            assert client.route("topic1").code == client.request(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0

        day()
        for command in steps[1]:
            site.run(command)
        day()  # as before
        secrets = {}
        for command in steps[2]:
            printed = site.run(command)
            if " secret add " in command:
                secrets[shlex.split(command, comments=True)[-1]] = printed.strip()
        day()
        # 3: the recipes
        credentials = re.search(r"innerClientAuthenticationCredentials=(\{.*\})", recipe("### Brokers from 5.3 on"))
        assert credentials is not None
        broker_a.access_key = json.loads(credentials[1])["accessKey"]
        tool.access_key = re.search(r"accessKey: (\w+)", recipe("### mqadmin and the dashboard"))[1]
        for peer in (broker_a, tool):
            peer.secret_key = secrets[peer.access_key]
        day()
        # 4: the broker that cannot sign is told of, with the command that lets it in
        (observe,) = [command for command in steps[4] if command == "mqregistry auth observe"]
        lets_in = f"mqregistry auth user add broker-b --role broker --cluster {CLUSTER} --broker broker-b"
        lets_in += f" --network {OLD_BROKER_HOST}"
        wait_until(lambda: lets_in in site.mends(observe), "the old broker is told of")
        by_hand = re.search(r"`(mqregistry auth user add broker-b [^`]*)`", section("### Brokers before 5.3"))
        assert by_hand is not None
        assert by_hand[1].replace("10.1.2.3", OLD_BROKER_HOST) == lets_in
        site.run(lets_in)
        assert lets_in not in site.mends(observe)
        day()
        # 5
        for command in steps[5]:
            site.run(f"{command} --yes")  # what is shown is what strangers sent
        day()
        refused_with(stranger.request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "broker-a"}), "anonymous")
        refused_with(stranger.request(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "topic1"}), "anonymous")
        with Caller(port, "broker-a", "a wrong secret") as wrong:
            refused_with(wrong.register(signs), "the AccessKey broker-a")
        # 6: somebody was forgotten
        refused_with(broker_c.register(forgotten), "broker-c")
        lets_in = lets_in.replace("broker-b", "broker-c").replace(OLD_BROKER_HOST, FORGOTTEN_HOST)
        wait_until(lambda: lets_in in site.mends(observe), "he is told of")
        (meanwhile,) = [command for command in steps[6] if " mode " in command]
        site.run(meanwhile)
        assert broker_c.register(forgotten).code == 0
        site.run(lets_in)
        for command in steps[5]:
            site.run(f"{command} --yes")  # what is shown is what strangers sent
        assert broker_c.register(forgotten).code == 0
        day()
