"""Example command lines for the help of commands whose text has none."""

from __future__ import annotations

from typing import Final

import click

EXAMPLES: Final = {
    "up": "mqregistry up --port 9877 --console",
    "serve": "mqregistry serve --redis redis://127.0.0.1:6379",
    "sweep": "mqregistry sweep --redis redis://127.0.0.1:6379 --metrics-port 10878",
    "console": "mqregistry console --redis redis://127.0.0.1:6379 --port 9880",
    "clusters": "mqregistry clusters --json",
    "brokers": "mqregistry brokers --redis redis://127.0.0.1:6379",
    "topics": "mqregistry topics --json",
    "route": "mqregistry route orders --follow",
    "tables": "mqregistry tables topicQueueTable",
    "front-ends": "mqregistry front-ends",
    "topic delete": "mqregistry topic delete orders --cluster DefaultCluster",
    "kv": "mqregistry kv list",
    "kv list": "mqregistry kv list ORDER_TOPIC_CONFIG",
    "kv delete": "mqregistry kv delete ORDER_TOPIC_CONFIG orders",
    "kv export": "mqregistry kv export > kvConfig.json",
    "kv get": "mqregistry kv get ORDER_TOPIC_CONFIG orders",
    "kv import": "mqregistry kv import kvConfig.json --dry-run",
    "kv put": "mqregistry kv put ORDER_TOPIC_CONFIG orders 'broker-a:4;broker-b:4'",
    "config export": "mqregistry config export > shared.properties",
    "config get": "mqregistry config get orderMessageEnable",
    "config import": "mqregistry config import shared.properties",
    "config set": "mqregistry config set orderMessageEnable=true",
    "auth user list": "mqregistry auth user list --json",
    "auth mode": "mqregistry auth mode observe",
    "auth user add": "mqregistry auth user add billing --role client",
    "auth user disable": "mqregistry auth user disable billing",
    "auth user enable": "mqregistry auth user enable billing",
    "auth user remove": "mqregistry auth user remove billing",
    "auth user set": "mqregistry auth user set billing --role operator",
    "auth user show": "mqregistry auth user show billing",
    "auth secret add": "mqregistry auth secret add billing",
    "auth secret drop": "mqregistry auth secret drop billing 1",
    "auth secret list": "mqregistry auth secret list billing",
    "auth allow": "mqregistry auth allow billing route topic:orders-*",
    "auth deny": "mqregistry auth deny anonymous list '*'",
    "auth observe": "mqregistry auth observe -n 20",
    "auth check": "mqregistry auth check billing route topic:orders",
    "auth import": "mqregistry auth import plain_acl.yml --dry-run",
    "watch": "mqregistry watch --from-start",
    "audit": "mqregistry audit --topic orders --since -2h",
    "streams": "mqregistry streams",
    "backup": "mqregistry backup registry.backup",
    "restore": "mqregistry restore registry.backup",
    "broker wipe": "mqregistry broker wipe broker-a",
    "broker forget": "mqregistry broker forget broker-a",
    "broker restore": "mqregistry broker restore broker-a",
    "pipeline": "mqregistry pipeline run --once",
    "pipeline run": "mqregistry pipeline run --lake /var/lib/mqregistry/lake --metrics-port 10879",
    "pipeline audit": "mqregistry pipeline audit --since-last",
    "pipeline backfill": "mqregistry pipeline backfill",
    "pipeline maintain": "mqregistry pipeline maintain --lake /var/lib/mqregistry/lake",
    "pipeline jars": "mqregistry pipeline jars /opt/mqregistry/jars",
    "pipeline report": "mqregistry pipeline report --from -7d --out report.html",
    "pipeline requarantine": "mqregistry pipeline requarantine",
    "pipeline what-if": "mqregistry pipeline what-if --lose zone=b --from -7d",
    "demo": "mqregistry demo",
    "probe": "mqregistry probe -n '127.0.0.1:9876;127.0.0.1:9877' --topic orders",
    "compare": "mqregistry compare 10.0.0.1:9876 10.0.0.3:9876 --until-same 10m",
    "migrate plan": "mqregistry migrate plan '10.0.0.1:9876;10.0.0.2:9876' '10.0.0.3:9876;10.0.0.4:9876'",
    "migrate check": "mqregistry migrate check 10.0.0.1:9876 10.0.0.3:9876 --before brokers-leave",
    "migrate back": "mqregistry migrate back '10.0.0.1:9876;10.0.0.2:9876' '10.0.0.3:9876;10.0.0.4:9876'",
    "shadow": "mqregistry shadow --port 9875 --java 10.0.0.1:9876 --ours 10.0.0.3:9876",
    "top": "mqregistry top",
    "doctor": "mqregistry doctor --redis redis://127.0.0.1:6379",
}
"""The words of a command -> an example; the first one that begins with a group's words is also the group's example."""


def with_example(command: click.Command, words: str) -> click.Command:
    """Put the example of a command, and of each command of a group, at the end of its help; words: as in EXAMPLES."""
    line = EXAMPLES.get(words) or next((one for key, one in EXAMPLES.items() if key.startswith(f"{words} ")), None)
    if line is not None:
        command.epilog = f"\b\nExample: {line}"
    if type(command) is click.Group:  # a LazyGroup calls this for each of its commands itself
        for name, one in command.commands.items():
            with_example(one, f"{words} {name}")
    return command
