"""Stock peers that sign, and what is said to those who are refused."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.server.auth_bed import Rules, secret_of

from .rocketmq import CLUSTER, START_TIMEOUT_S, Admin, Broker, Console

PROVIDER = "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider"


def signing(access_key: str, secret_key: str) -> dict[str, object]:
    """The properties with which a broker from 5.3 on signs what it sends to name servers."""
    return {
        "innerClientAuthenticationCredentials": json.dumps({"accessKey": access_key, "secretKey": secret_key}),
        "authenticationMetadataProvider": PROVIDER,
    }


class AdminWithKey(Admin):
    """mqadmin that may have ``conf/tools.yml``, which it reads with each command. It begins without."""

    def sign_with(self, access_key: str, secret_key: str) -> None:
        """From the next command on."""
        self._tools_yml.write_text(f"accessKey: {access_key}\nsecretKey: {secret_key}\n")

    def sign_nothing(self) -> None:
        """From the next command on."""
        self._tools_yml.unlink(missing_ok=True)

    @cached_property
    def _home(self) -> Path:
        return self._processes.home(f"mqadmin-{self._release.version}")

    @property
    def _tools_yml(self) -> Path:
        (self._home / "conf").mkdir(exist_ok=True)
        return self._home / "conf" / "tools.yml"

    @cached_property
    def _console(self) -> Console:
        command = self._release.java("AdminConsole", self._home)
        console = Console(self._processes.start("mqadmin", command, home=self._home, steered=True))
        console.hear(START_TIMEOUT_S)
        return console


def play_mqadmin(admin: AdminWithKey, name_server: str, rules: Rules, brokers: dict[str, Broker]) -> None:
    """With the key of the operator ``ops`` it writes; with another one, and without one, it only reads.

    Args:
        brokers: all that are registered, by brokerName.
    """
    listed = sorted((CLUSTER, name, 0, broker.addr) for name, broker in brokers.items())
    name = min(brokers)
    before = tables(rules)
    for secret_key in ("a wrong secret", None):
        if secret_key is None:
            admin.sign_nothing()
        else:
            admin.sign_with("ops", secret_key)
        for command in (["wipeWritePerm", "-b", name], ["updateKvConfig", "-s", "N", "-k", "k", "-v", "v"]):
            said = admin.run(command[0], name_server, *command[1:])
            assert "CODE: 16" in said, said
            assert "no permission" in said, said
        assert tables(rules) == before
    assert sorted(admin.clusters(name_server)) == listed, "who does not sign may read"
    admin.sign_with("ops", secret_of("ops"))
    assert sorted(admin.clusters(name_server)) == listed
    said = admin.run("wipeWritePerm", name_server, "-b", name)
    assert f"wipe write perm of broker[{name}] in name server" in said, said
    said = admin.run("updateKvConfig", name_server, "-s", "N", "-k", "k", "-v", "v")
    assert "create or update kv config to namespace success" in said, said
    # settings are for admins
    said = admin.run("updateNamesrvConfig", name_server, "-k", "productEnvName", "-v", "x")
    assert "CODE: 16" in said, said


def tables(rules: Rules) -> dict[str, Any]:
    """The rows of topics, KV configuration and brokers."""
    kept = rules.kept(events=False)
    return {name: value for name, value in kept.items() if name.startswith(("topic:", "kv", "broker:"))}
