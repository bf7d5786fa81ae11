"""``route --at`` and ``brokers --at``: the tables as they were, read from the lake, without Redis and without Spark."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.cli.options import read_settings
from registry.cli.pipeline import spark_extra
from registry.cli.reads import BrokerInfo, VersionInfo
from registry.model import TopicRoute

if TYPE_CHECKING:
    from pipeline.travel import BrokerThen, Past


def read_route_at(topic: str, at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None) -> TopicRoute:
    """One topic's route then.

    Raises:
        click.ClickException: there was no such topic.
        LakeError: the lake does not know that instant.
    """

    def question(past: Past) -> TopicRoute:
        found = past.route(topic, at_ms)
        if found is None:
            raise click.ClickException(_no_such_topic(topic, past.topic_names(at_ms), at_ms))
        return found

    found: TopicRoute = _ask(at_ms, lake, flags, config_file, question)
    return found


def read_brokers_at(at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None) -> list[BrokerInfo]:
    """Every broker process then. Without a heartbeat of it in the lake its registration is the last that is known of
    it; its front ends are those that it was heard through within its timeout.

    Raises:
        LakeError: the lake does not know that instant.
    """

    def question(past: Past) -> list[BrokerInfo]:
        return [_info(broker, at_ms) for broker in past.brokers(at_ms)]

    found: list[BrokerInfo] = _ask(at_ms, lake, flags, config_file, question)
    return found


def _ask(at_ms: int, lake: str, flags: dict[str, Any], config_file: Path | None, question: Any) -> Any:
    if flags.get("redis") is not None:
        raise click.UsageError("--at reads the pipeline's tables, --redis names the tables of now: give one of them")
    namespace = read_settings({"namespace": flags.get("namespace")}, config_file).namespace
    with spark_extra():
        from pipeline.lake import Lake
        from pipeline.travel import ask
    return ask(Lake(lake), namespace, at_ms, question)


def _info(broker: BrokerThen, at_ms: int) -> BrokerInfo:
    info = broker.info
    heard_ms = max(broker.registered_ms, broker.sign.ms) if broker.sign else broker.registered_ms
    return BrokerInfo(
        cluster=info.cluster,
        broker_name=broker.broker_name,
        broker_id=info.broker_id,
        broker_addr=info.addr,
        ha_server_addr=info.ha or "",
        data_version=VersionInfo(info.counter or 0, info.timestamp or 0, info.state_version or 0),
        last_update_timestamp=heard_ms,
        heartbeat_timeout_millis=info.timeout_ms,
        heard_ms_ago=at_ms - heard_ms,
        expires_in_ms=heard_ms + info.timeout_ms - at_ms,
        front_ends=broker.sign.front_ends if broker.sign else 0,
    )


def _no_such_topic(topic: str, names: set[str], at_ms: int) -> str:
    from pipeline.travel import show_ms

    close = difflib.get_close_matches(topic, sorted(names), 3, 0.6)
    if close:
        return f"no topic {topic!r} at {show_ms(at_ms)}; did you mean {' or '.join(close)}?"
    return f"no topic {topic!r} at {show_ms(at_ms)}; there were {len(names)} topics then"
