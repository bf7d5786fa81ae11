"""A master and a slave of 5.x with enableSlaveActingMaster: the slave stands in while the master is away.

Both are registered at a Java NameServer as well, and the two servers must show the same on the way. The master asks
for the members of its name as it would of an old name server (by a topic's route), the slave by 901.
"""

import re
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from bench.servers.processes import Processes, free_port, wait_until

from .conftest import with_5x
from .name_servers import REGISTER_TIMEOUT_S, Kind, NameServer
from .rocketmq import BROKER_NAME, CLUSTER, Broker, Client, Release, start_java_name_server
from .wire import WireClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900), with_5x]

FLOW_TIMEOUT_S = 60
# A slave asks its master for new topics once a minute, the first time a minute after its start, and serves none before.
SYNC_TIMEOUT_S = 100
MESSAGES = 200
# Its JSON parser refuses the consumer offsets as a slave of the same release writes them (bare numbers as names), so a
# master that asks for them when it returns never registers again.
CANNOT_RETURN = {"5.5.0"}
MEMBERS_TOPIC = f"rmq_sys_SYNC_BROKER_MEMBER_{BROKER_NAME}"
PAIR = {
    "enableSlaveActingMaster": True,
    # They look for each other before they register, as they should; this also spares them a wait of ten seconds.
    "totalReplicas": 2,
    # A message is acknowledged once the slave has it, so that none can be missing there.
    "inSyncReplicas": 2,
    # Without it a slave refuses every pull, also when it stands in.
    "slaveReadEnable": True,
    # A master that returns asks the slave for its timers, and does not register before it has got an answer.
    "timerWheelEnable": True,
}


class Shown:
    """What a name server shows of the pair, each view's answers in order, without those like the one before."""

    def __init__(self, port: int, topic: str, role: Callable[[str], str]) -> None:
        self.views: dict[str, list[Any]] = {}
        self.error: Exception | None = None
        self._port, self._topic, self._role = port, topic, role
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(10)
        if kind is None:
            assert self.error is None, self.error

    def _run(self) -> None:
        try:
            with WireClient(self._port) as client:
                while not self._stop.wait(0.01):
                    for view, answer in look(client, self._topic, self._role).items():
                        answers = self.views.setdefault(view, [])
                        if answers[-1:] != [answer]:
                            answers.append(answer)
        except Exception as error:  # noqa: BLE001 - the test's thread asserts that there is none
            self.error = error


def look(client: WireClient, topic: str, role: Callable[[str], str]) -> dict[str, Any]:
    """All that a name server says of the pair, by view, with "master" and "slave" for the addresses."""

    def named(addrs: dict[str, str]) -> dict[str, str]:
        return {broker_id: role(addr) for broker_id, addr in addrs.items()}

    routes = {}
    for name in (topic, MEMBERS_TOPIC):
        route = client.route(name) or {"brokerDatas": [], "queueDatas": []}
        routes[name] = (
            [data | {"brokerAddrs": named(data["brokerAddrs"])} for data in route["brokerDatas"]],
            route["queueDatas"],
        )
    table = client.cluster_info()["brokerAddrTable"]
    return routes | {
        "cluster": {name: row | {"brokerAddrs": named(row["brokerAddrs"])} for name, row in table.items()},
        "members": named(client.member_group(CLUSTER, BROKER_NAME)),
    }


def test_slave_stands_in_for_killed_master_as_at_java_name_server(
    under_test: Kind, release: Release, processes: Processes
) -> None:
    settings = {"supportActingMaster": True, "scanNotActiveBrokerInterval": 1_000}
    ours = under_test.start(processes, settings | {"notifyMinBrokerIdChanged": True})
    java_port = free_port()
    both = f"{ours.addr};127.0.0.1:{java_port}"
    master = Broker(processes, release, both, PAIR | {"brokerRole": "SYNC_MASTER"})
    slave = Broker(
        processes, release, both, PAIR | {"brokerRole": "SLAVE", "brokerId": 1, "compatibleWithOldNameSrv": False}
    )
    # Alone in the list that answers, ours is the one that they go on asking; the Java one is told, and asked by us.
    master.start()
    wait_for_members(ours, {"0": master})
    slave.start()
    wait_for_members(ours, {"0": master, "1": slave})
    client = Client(processes, release, ours.addr, "stands_in")
    client.send(MESSAGES)
    java = NameServer(start_java_name_server(processes, release, java_port, settings), java_port)
    wait_for_members(java, {"0": master, "1": slave})

    client.wait_for_all(FLOW_TIMEOUT_S)
    wait_until("the slave has heard of the topic", lambda: client.topic in slave.topics(), SYNC_TIMEOUT_S)

    def role(addr: str) -> str:
        return "slave" if addr == slave.addr else "master"

    with WireClient(ours.port) as at_ours, WireClient(java.port) as at_java:

        def same() -> dict[str, Any] | None:
            mine, theirs = look(at_ours, client.topic, role), look(at_java, client.topic, role)
            assert mine[client.topic] != ([], []), mine
            return mine if mine == theirs else None

        wait_until("both name servers show the same", same, REGISTER_TIMEOUT_S)
        with Shown(ours.port, client.topic, role) as ours_showed, Shown(java.port, client.topic, role) as java_showed:
            wait_until("both are looked at", lambda: len(ours_showed.views) == len(java_showed.views) == 4, 30)
            master.process.kill()
            wait_for_members(ours, {"1": slave})
            wait_for_members(java, {"1": slave})
            acting = wait_until("both show the slave alone", same, within_s=30)
            brokers, queues = acting[client.topic]
            assert [data["brokerAddrs"] for data in brokers] == [{"0": "slave"}]
            assert [queue["perm"] for queue in queues] == [4]
            assert [data["brokerAddrs"] for data in acting[MEMBERS_TOPIC][0]] == [{"1": "slave"}]
            wait_until("the slave is told that it is the first now", lambda: notified(slave, 1), within_s=30)

            latecomer = Client(processes, release, ours.addr, client.topic, group="latecomer")
            wait_until("it reads all from the slave", lambda: latecomer.counts().received >= MESSAGES, FLOW_TIMEOUT_S)

            if release.version in CANNOT_RETURN:
                return
            master.start()
            for server in (ours, java):
                wait_for_members(server, {"0": master, "1": slave})
            wait_until("the slave is told that the master is back", lambda: notified(slave, 0), within_s=30)
            whole = wait_until("both show both again", same, REGISTER_TIMEOUT_S)
            assert [queue["perm"] for queue in whole[client.topic][1]] == [6]
            assert [data["brokerAddrs"] for data in whole[client.topic][0]] == [{"0": "master", "1": "slave"}]
        assert ours_showed.views == java_showed.views
        # All is well, the slave alone, all is well.
        assert [len(answers) for answers in ours_showed.views.values()] == [3, 3, 3, 3], ours_showed.views

    client.send(MESSAGES)
    client.wait_for_all(FLOW_TIMEOUT_S)
    wait_until("the latecomer reads on", lambda: latecomer.counts().received == 2 * MESSAGES, FLOW_TIMEOUT_S)


def wait_for_members(server: NameServer, members: dict[str, Broker]) -> None:
    def probe() -> bool:
        with WireClient(server.port) as client:
            found = client.member_group(CLUSTER, BROKER_NAME)
        return found == {broker_id: broker.addr for broker_id, broker in members.items()}

    wait_until(f"{server.addr} shows the ids {sorted(members)}", probe, REGISTER_TIMEOUT_S)


def notified(broker: Broker, min_broker_id: int) -> bool:
    """Whether a 905 came to it that names this id; its log says so in other words when it finds out by itself."""
    told = re.compile(rf"min broker id changed, prev \d+, new {min_broker_id}$", re.MULTILINE)
    logs = broker.process.log.parent.rglob("broker.log")
    return any(told.search(path.read_text(errors="replace")) for path in logs)
