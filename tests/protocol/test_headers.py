"""extFields to typed headers and back, with Java's leniency."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mqregistry.protocol import headers
from mqregistry.protocol.command import decode_command
from mqregistry.protocol.headers import Header
from mqregistry.protocol.numbers import parse_boolean, parse_int, parse_long
from tests.golden import exchanges, scenarios

ALL = [
    kind for _, kind in inspect.getmembers(headers, inspect.isclass) if issubclass(kind, Header) and kind is not Header
]

REQUESTS = {
    100: headers.PutKVConfig,
    101: headers.GetKVConfig,
    102: headers.DeleteKVConfig,
    103: headers.RegisterBroker,
    104: headers.UnregisterBroker,
    105: headers.GetRouteInfo,
    205: headers.WipeWritePerm,
    216: headers.DeleteTopic,
    217: headers.RegisterTopic,
    219: headers.GetKVListByNamespace,
    224: headers.TopicsByCluster,
    322: headers.QueryDataVersion,
    327: headers.WipeWritePerm,
    901: headers.GetBrokerMemberGroup,
    904: headers.BrokerHeartbeat,
    905: headers.NotifyMinBrokerIdChange,
}
REPLIES = {
    103: headers.RegisterBrokerReply,
    322: headers.QueryDataVersionReply,
}
# Fields of replies without a header of their own: 101, 205 and 327.
ONLY_WRITTEN = {"value", "wipeTopicCount", "addTopicCount"}
# What senders add that no NameServer reads.
UNREAD = {"surprise", "lo", "ns", "nsd", "brokerId", "epoch", "maxOffset", "confirmOffset"}


def test_every_field_of_real_peers_is_known_and_comes_back() -> None:
    for name in scenarios():
        if name.startswith(("probe-", "drain")):
            continue
        for request, reply in exchanges(name):
            for row, kinds in ((request, REQUESTS), (reply, REPLIES)):
                if row is None:
                    continue
                command = decode_command(row["frame"][4:])
                assert command is not None
                ext_fields = command.ext_fields or {}
                kind = kinds.get(request["code"])
                if kind is None:
                    assert set(ext_fields) <= UNREAD | ONLY_WRITTEN
                    continue
                again = kind.from_ext_fields(ext_fields).to_ext_fields()
                assert {key: value for key, value in ext_fields.items() if key not in UNREAD or key in again} == {
                    key: value for key, value in again.items() if key in ext_fields
                }
                assert {again[key] for key in again if key not in ext_fields} <= {"false"}


@pytest.mark.parametrize("kind", ALL)
def test_nothing_reads_as_absent(kind: type[Header]) -> None:
    for empty in (None, {}):
        header = kind.from_ext_fields(empty)
        assert all(value is None or value is False for value in structs.asdict(header).values())
        assert kind.from_ext_fields(header.to_ext_fields()) == header


@pytest.mark.parametrize("kind", ALL)
@given(text=st.text(max_size=6) | st.integers().map(str) | st.sampled_from(["true", "TRUE", "false", "-1", "+5"]))
def test_any_text_reads_and_comes_back(kind: type[Header], text: str) -> None:
    keys = [field.encode_name for field in structs.fields(kind)]
    header = kind.from_ext_fields(dict.fromkeys(keys, text))
    assert kind.from_ext_fields(header.to_ext_fields()) == header


def test_register_broker() -> None:
    header = headers.RegisterBroker.from_ext_fields(
        {
            "brokerName": "broker-a",
            "brokerAddr": "127.0.0.1:10911",
            "clusterName": "DefaultCluster",
            "haServerAddr": "127.0.0.1:10912",
            "brokerId": "0",
            "heartbeatTimeoutMillis": "10000",
            "enableActingMaster": "True",
            "compressed": "yes",
            "bodyCrc32": "4294967295",
            "__ZONE_NAME": "z1",
            "unknown": "ignored",
        }
    )
    assert header == headers.RegisterBroker(
        broker_name="broker-a",
        broker_addr="127.0.0.1:10911",
        cluster_name="DefaultCluster",
        ha_server_addr="127.0.0.1:10912",
        broker_id=0,
        heartbeat_timeout_millis=10_000,
        enable_acting_master=True,
        compressed=False,
        body_crc32=None,  # no int32
        zone_name="z1",
    )


@pytest.mark.parametrize(
    ("name", "mode", "zone"),
    [
        ("z1", "true", "z1"),
        ("z1", "TRUE", "z1"),
        ("z1", "false", None),
        ("z1", None, None),
        ("", "true", None),
        (" ", "true", None),
        (None, "true", None),
    ],
)
def test_zone_filter(name: str | None, mode: str | None, zone: str | None) -> None:
    given_fields = {"__ZONE_NAME": name, "__ZONE_MODE": mode}
    ext_fields = {key: value for key, value in given_fields.items() if value is not None}
    assert headers.GetRouteInfo.from_ext_fields(ext_fields).zone_filter == zone


@pytest.mark.parametrize(
    ("text", "as_int", "as_long"),
    [
        ("0", 0, 0),
        ("-7", -7, -7),
        ("+7", 7, 7),
        ("007", 7, 7),
        ("2147483647", 2147483647, 2147483647),
        ("2147483648", None, 2147483648),
        ("-2147483648", -2147483648, -2147483648),
        ("9223372036854775807", None, 9223372036854775807),
        ("9223372036854775808", None, None),
        ("1" * 5000, None, None),
        ("", None, None),
        (" 1", None, None),
        ("1_0", None, None),
        ("1.0", None, None),
        ("0x1", None, None),
        ("-", None, None),
        ("\u0661", None, None),
    ],
)
def test_numbers_read_as_java_reads_them(text: str, as_int: int | None, as_long: int | None) -> None:
    assert parse_int(text) == as_int
    assert parse_long(text) == as_long


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("1", False), (" true", False)])
def test_booleans_read_as_java_reads_them(text: str, value: bool) -> None:
    assert parse_boolean(text) is value
