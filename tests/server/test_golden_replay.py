"""What real peers asked of real NameServers, asked of ours: the same answers, in the same order.

Arrays and maps whose order is arbitrary in Java are compared as sets; exception texts (code 1) only by code.
Where ours is better on purpose, DELIBERATE names the case and the row of the documentation.
"""

from __future__ import annotations

import asyncio
import re
import select

import pytest

from mqregistry.behaviour import FOUR_EIGHT
from mqregistry.protocol import lenient_json
from mqregistry.protocol.codes import RequestCode
from mqregistry.protocol.command import decode_command
from mqregistry.store.leases import LeaseStore
from mqregistry.store.store import Store
from tests import golden

from .harness import Client

# (scenario pattern, case or code pattern) -> why ours differs
DELIBERATE: list[tuple[str, str, str]] = [
    (r"", r"(no|empty)-(brokerName|brokerAddr|clusterName) 103", "D9: a null or empty name is refused, nothing stored"),
    (r"", r"compressed-flag-false 103", "D1: a body that is zlib is read as such, whatever the flag says"),
    (
        r"broker-5.*-compressed",
        r" (103|105|106)",
        "D1: it cannot register at a Java NameServer",
    ),
    (r"", r"update-listenPort 318", "D14: a setting of one process is refused with the reason, not kept unused"),
    (
        r"probe-cluster-test",
        r" (?!105)\d+$|route-(TopicA|Ordered|zone|rmq_sys_SYNC_BROKER_MEMBER_broker-am|dropped-topic) 105",
        "D15: Java takes every code for a lookup, so that its tables stay empty",
    ),
    (
        r"kv.*4.8.0",
        r"(put|get|list)-(no|empty)-\S+ ",
        "D9: a null key or namespace is refused, nothing stored (as 5.x)",
    ),
    (
        r"register.*4.8.0",
        r"route-of-dropped-topic|topic-list-after",
        "D9: the brokerName null that Java took makes it trip over every later registration of the same topics",
    ),
    (r"probe-wait-for-service", r" 105$", "D10: ready as soon as the tables are readable"),
    (
        r"acting-master-5.3.3--ns-5.3.3",
        r"None 901$",
        "the recorded question overtook a slave's registration: both were under way at the same time",
    ),
    (r"", r" 304", "D7: the smallest master address, Java's is the first of a hash"),
]

# Names that stand in only one of the two tables: Java stores registrations without a name (D9), ours the
# compressed one (D1); a null topicConfigSerializeWrapper is answered 0 by both, but leaves a row only here.
GHOST_NAMES = ("", "null", None, "broker-z2", "broker-null")

# Of 319: values of that machine, or ours on purpose (D13 and its bound).
MACHINE_KEYS = {
    "rocketmqHome", "kvConfigPath", "configStorePath", "listenPort", "bindAddress", "enableShutdownGracefully",
    "shutdownWaitTimeSeconds",
}  # fmt: skip

KNOWN = frozenset(RequestCode) - {RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE}

# What cannot be replayed frame by frame, and where it is tested instead.
ELSEWHERE = {
    r"--ns-4.9.7$": "there is no mode of 4.9: it is between the two",
    r"^probe-framing": "no frames: test_bad_input, test_proxy_protocol, test_tls",
    r"^drain": "D13, and it ends the server: test_supervisor, test_deliberate",
}
# Requests after which a connection stands for a broker.
HELD_BY = {RequestCode.REGISTER_BROKER, RequestCode.QUERY_DATA_VERSION, RequestCode.BROKER_HEARTBEAT}

SCENARIOS = [name for name in golden.scenarios() if not any(re.search(pattern, name) for pattern in ELSEWHERE)]


def compat_of(name):
    return "4.8" if name.endswith("4.8.0") else "5.x"


def normal(value):
    """A JSON value with arrays and maps in one order; long hex-like order does not matter."""
    if isinstance(value, dict):
        return {str(key): normal(item) for key, item in sorted(value.items(), key=lambda pair: str(pair[0]))}
    if isinstance(value, list):
        return sorted((normal(item) for item in value), key=repr)
    return value


def body_of(command):
    if not command.body:
        return None
    if command.body[:1] not in b"{[":
        return configuration(command.body.decode())
    return normal(without_ghosts(lenient_json.loads(command.body)))


def configuration(text):
    """The body of 319; the order of its lines counts."""
    pairs = [line.split("=", 1) for line in text.splitlines()]
    return [(key, "" if key in MACHINE_KEYS else value) for key, value in pairs]


def without_ghosts(body):
    """What Java keeps and we refuse: rows without a name (D9), rows that a refused registration left (D16)."""
    if not isinstance(body, dict):
        return body
    rows = body.get("brokerAddrTable")
    if isinstance(rows, dict):
        kept = {name: row for name, row in rows.items() if name not in GHOST_NAMES and row["brokerAddrs"]}
        clusters = body.get("clusterAddrTable", {})
        body["brokerAddrTable"] = kept
        body["clusterAddrTable"] = {
            cluster: left
            for cluster, names in clusters.items()
            if cluster not in GHOST_NAMES and (left := [name for name in names if name in kept])
        }
    for part in ("brokerDatas", "queueDatas"):
        if isinstance(body.get(part), list):
            body[part] = [item for item in body[part] if item.get("brokerName") not in GHOST_NAMES]
    return body


def shape(command):
    remark = command.remark
    if command.code == 1:
        remark = "(exception text)"
    return {
        "code": command.code,
        "remark": remark,
        "ext": command.ext_fields or {},
        "body": body_of(command),
    }


@pytest.mark.parametrize("name", SCENARIOS)
def test_replay_gives_the_answers_of_the_java_name_server(name, front_end_with):
    header, rows = golden.load(name)
    properties = header.get("nameserver_properties") or {}
    compat = compat_of(name)
    binary = "ROCKETMQ" if "-Drocketmq.serialize.type=ROCKETMQ" in (header.get("nameserver_jvm") or "") else "JSON"
    front_end = front_end_with(compat=compat, serialize_type=binary, **to_settings(properties))
    clients: dict[object, Client] = {}
    brokers = set()  # connections whose close has an effect
    answers = iter(golden.exchanges(name))
    differences = []
    for row in rows:
        if row["direction"] == "close" and row["sender"] == "nameserver" and row["conn"] in clients:
            hung_up_on(front_end, clients.pop(row["conn"]))
        if row["sender"] != "peer":
            continue
        if row["direction"] == "close":
            client = clients.pop(row["conn"], None)
            if client is not None:
                client.close()
            if row["conn"] in brokers:
                front_end.poll()
                front_end.status.clear()  # only what is said from now on tells of the close
                front_end.wait_until(lambda: settled(front_end, clients), "the close had its effect")
            continue
        if "code" not in row or row["direction"] == "response":
            continue
        request_row, reply_row = next(answers)
        assert request_row is row
        client = clients.get(row["conn"])
        if client is None:
            client = clients[row["conn"]] = front_end.client()
        request = decode_command(row["frame"][4:])
        if request.code in HELD_BY:
            brokers.add(row["conn"])
        client.socket.sendall(row["frame"])
        if request.is_response:
            continue
        if request.is_oneway:
            # what follows on another connection sees its effect: writes of one connection are done in order
            assert client.request(RequestCode.DELETE_KV_CONFIG).code == 0
            continue
        if reply_row is None:
            # The peer hung up before it came, or, D8, 4.x did not know the code and never answers such requests.
            reply = client.receive()
            unknown = row["code"] not in KNOWN or (compat == "4.8" and row["code"] in FOUR_EIGHT.absent_codes)
            assert (reply.code == 3) == unknown, row.get("case")
            continue
        expected = decode_command(reply_row["frame"][4:])
        reply = client.receive()
        assert reply is not None, f"{row.get('case')}: hung up"
        if request.opaque is not None:
            assert reply.opaque == request.opaque
        if shape(reply) != shape(expected):
            differences.append((row.get("case"), row["code"], shape(expected), shape(reply)))
    for client in clients.values():
        client.close()
    unexplained = [item for item in differences if not explained(name, item)]
    assert not unexplained, "\n".join(
        f"{case} ({code}): {key}\n  java {java[key]}\n  ours {ours[key]}"
        for case, code, java, ours in unexplained
        for key in java
        if java[key] != ours[key]
    )


def hung_up_on(front_end, client):
    """The broker of this connection expires: nobody beats for it, and a sweeper looks until it is gone."""

    async def sweep():
        async with Store(front_end.settings.redis, front_end.settings.namespace, compat=compat) as store:
            while not select.select([client.socket], [], [], 0.05)[0]:
                await LeaseStore(store).expire(10)

    compat = front_end.settings.compat
    asyncio.run(asyncio.wait_for(sweep(), 60))
    assert client.closed()
    client.close()


def settled(front_end, clients):
    status = front_end.poll()
    return status.get("connections", -1) == len(clients) and status.get("closes_pending") == 0


def explained(name, item):
    case, code, _, _ = item
    return any(
        re.search(scenario, name) and re.search(pattern, f"{case} {code}") for scenario, pattern, _ in DELIBERATE
    )


def to_settings(properties):
    from mqregistry.config.settings import Settings

    known = {
        "supportActingMaster": ("support_acting_master", bool),
        "scanNotActiveBrokerInterval": ("scan_not_active_broker_interval_ms", int),
        "orderMessageEnable": ("order_message_enable", bool),
        "returnOrderTopicConfigToBroker": ("return_order_topic_config_to_broker", bool),
        "deleteTopicWithBrokerRegistration": ("delete_topic_with_broker_registration", bool),
        "enableAllTopicList": ("enable_all_topic_list", bool),
        "enableTopicList": ("enable_topic_list", bool),
        "clusterTest": ("cluster_test", bool),
        "productEnvName": ("product_env_name", str),
        "configBlackList": ("config_black_list", str),
    }
    settings = {}
    for key, value in properties.items():
        if key in known:
            name, kind = known[key]
            settings[name] = (str(value).lower() == "true") if kind is bool else kind(value)
            assert name in Settings.__struct_fields__
    return settings
