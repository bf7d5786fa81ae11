"""Says in words what each step of a migration does, and makes its command lines from the servers' addresses."""

from __future__ import annotations

from typing import Final

from ...compare.migration import Step

_TITLES: Final = {
    Step.SERVERS: "start the {new}",
    Step.BROKERS_JOIN: "brokers get to know all name servers",
    Step.AGREE: "wait until all of them agree",
    Step.CLIENTS_LEAVE: "clients change over to the {new}: producers, consumers, proxies, dashboards, mqadmin",
    Step.BROKERS_LEAVE: "brokers leave the {old}",
    Step.STOP: "stop the {old}",
}
_KINDS: Final = ("Java NameServers", "front ends")

Lists = tuple[list[str], list[str], list[str]]
"""The old name servers, the new ones, and the clusters."""


def title(step: Step, *, back: bool) -> str:
    """What a step of a migration does, in words."""
    old, new = reversed(_KINDS) if back else _KINDS
    return _TITLES[step].format(old=old, new=new)


def commands(step: Step, lists: Lists, *, back: bool) -> list[str]:
    """The command lines of a step; where no command fits all machines, a line that begins with # says what to do."""
    old, new, clusters = lists
    names = clusters or ["CLUSTER"]
    match step:
        case Step.SERVERS if back:
            return [
                "$ mqregistry kv export > kvConfig.json   # copy it to the kvConfigPath of each Java NameServer",
                "$ mqregistry config export               # copy these lines into the Java NameServers' file",
                "# start the Java NameServers: sh bin/mqnamesrv -c namesrv.properties",
            ]
        case Step.SERVERS:
            return [
                "$ mqregistry serve -c namesrv.properties -p   # what each key of that file means here",
                "$ mqregistry serve -c namesrv.properties --redis redis://HOST:6379   # on each machine",
                "$ mqregistry kv import kvConfig.json",
            ]
        case Step.BROKERS_JOIN:
            return [_update(old[0], cluster, [*old, *new]) for cluster in names]
        case Step.AGREE:
            return [f"$ mqregistry compare '{';'.join([*old, *new])}' --until-same 10m"]
        case Step.CLIENTS_LEAVE:
            lines = [f"# start each again with the name servers {';'.join(new)}, then see who is left:"]
            for address in old:
                host, _, port = address.rpartition(":")
                lines.append(f"$ ssh {host} \"ss -Htn state established '( sport = :{port} )'\" > {host}.peers")
            peers = " ".join(f"--peers {address}={address.rpartition(':')[0]}.peers" for address in old)
            java, ours = (new, old) if back else (old, new)
            command = "back" if back else "check"
            return [*lines, f"$ mqregistry migrate {command} '{';'.join(java)}' '{';'.join(ours)}' {peers}"]
        case Step.BROKERS_LEAVE:
            return [_update(new[0], cluster, new) for cluster in names]
        case Step.STOP if back:
            return ["# stop the front ends and sweepers; Redis keeps the tables"]
    return [f"$ sh bin/mqshutdown namesrv   # on {', '.join(address.rpartition(':')[0] for address in old)}"]


def _update(known_to: str, cluster: str, wanted: list[str]) -> str:
    return f'$ bin/mqadmin updateBrokerConfig -n {known_to} -c {cluster} -k namesrvAddr -v "{";".join(wanted)}"'
