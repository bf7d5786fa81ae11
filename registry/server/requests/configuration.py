"""Changes and shows the run-time configuration of a namespace's front ends over the wire (318, 319).

Java lets everybody who reaches the port change nearly every key (CVE-2023-37582). Here a 318 may change only keys that
the table of settings allows and that are not in Java's black list (docs/differences.md D14). A request is applied as a
whole or not at all. Source of the behaviour: DefaultRequestProcessor.updateConfig and Configuration (RocketMQ 5.x).
"""

from __future__ import annotations

import logging
from typing import Final

from ...behaviour import Behaviour
from ...config import properties
from ...config.java_keys import KNOWN_TO_JAVA, JavaKey
from ...config.option import Option
from ...config.settings import Settings, options_by_key
from ...protocol.codes import ResponseCode
from ...protocol.command import Command
from ...protocol.numbers import parse_boolean, parse_long
from ..auth.peer import Peer
from .context import RequestContext, log_write

logger = logging.getLogger(__name__)

_PATH_CHARS: Final = 1000

# The keys in the recorded 5.x replies to 319. 319 also shows keys of ours that the shared configuration has.
SHOWN_BY_JAVA: Final = frozenset(KNOWN_TO_JAVA) | {
    "bindAddress", "clusterTest", "configBlackList", "deleteTopicWithBrokerRegistration", "enableAllTopicList",
    "enableShutdownGracefully", "enableTopicList", "listenPort", "needWaitForService", "notifyMinBrokerIdChanged",
    "orderMessageEnable", "productEnvName", "returnOrderTopicConfigToBroker", "scanNotActiveBrokerInterval",
    "serverChannelMaxIdleTimeSeconds", "serverSocketBacklog", "shutdownWaitTimeSeconds", "supportActingMaster",
    "waitSecondsForService", "writeBufferHighWaterMark",
}  # fmt: skip


class _Refused(Exception):
    """The request as a whole is refused, with this remark."""


async def update_namesrv_config(context: RequestContext, command: Command, opaque: int, peer: Peer) -> bytes:
    """318: set shared settings; the answer comes when this front end uses them. The other front ends get the event."""
    try:
        asked = {entry.key: entry.value for entry in properties.parse(command.body)}
    except properties.PropertiesSyntaxError:
        return context.replies.system_error(opaque, "string2Properties error")
    settings = context.settings
    if not asked.keys().isdisjoint(black_list(context)):
        return context.replies.reply(opaque, ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    try:
        changes = accepted(asked, settings, context.behaviour)
    except _Refused as refusal:
        context.rates.tell("request 318", peer.host, f"request 318 of {peer.address} refused: {refusal}")
        return context.replies.reply(opaque, ResponseCode.NO_PERMISSION, f"Can not update config: {refusal}")
    if changes:
        context.begin_write()
        by = context.by(peer)
        await context.effect(await context.kv.set_config(changes, by=by))
        shown = ", ".join(f"{key}={value}" for key, value in changes.items())
        log_write(logger, by, "set the shared configuration: %s", shown)
    return context.replies.success.reply(opaque)


def get_namesrv_config(context: RequestContext, command: Command, opaque: int) -> bytes:
    """319: show the settings in effect here, one ``key=value`` a line, sorted."""
    return context.replies.success.reply(opaque, shown(context).encode())


def black_list(context: RequestContext) -> frozenset[str]:
    """The keys that Java refuses; none in 4.8."""
    configured = context.settings.config_black_list.split(";") if context.behaviour.black_list else ()
    return context.behaviour.black_list.union(configured)


def accepted(asked: dict[str, str], settings: Settings, behaviour: Behaviour) -> dict[str, str]:
    """The keys of a request that go into the shared configuration, each with its value as 319 shows it.

    Unknown keys, and values of number keys that are no numbers, are ignored silently, as in Java.

    Raises:
        _Refused: a key that may not be changed, or a number out of bounds.
    """
    changes: dict[str, str] = {}
    for key, text in asked.items():
        if key in behaviour.ignored_settings:
            continue
        option = options_by_key().get(key)
        if option is None:
            value = _without_effect(KNOWN_TO_JAVA.get(key), text)
        else:
            value = _with_effect(option, text, settings)
        if value is not None:
            changes[key] = value
    return changes


def _without_effect(java: JavaKey | None, text: str) -> str | None:
    """The value that 319 shows of a Java key without effect here; None: unknown key, or a value of another type."""
    if java is None:
        return None
    if not java.default:
        # a path, which only 4.8 accepts in a 318; it must be printable, because 319 has one line for each key
        return text if len(text) <= _PATH_CHARS and text.isprintable() else None
    return _java_value("bool" if java.default in ("true", "false") else "int", text)


def _with_effect(option: Option, text: str, settings: Settings) -> str | None:
    value = _java_value(option.kind, text)
    if value is None:
        return None
    key = option.key
    in_effect = _shown(option, settings)
    if not option.about.shared or not _may_change(option, settings):
        # A value that 319 shows may be sent back unchanged. A key that 319 does not show refuses even its own value:
        # else a sender could find out the value by guessing.
        if value == in_effect and (option.about.shared or key in SHOWN_BY_JAVA):
            return None
        raise _Refused(f"{_reason(option)}. Nothing was changed.")
    source = settings.source(option.name)
    if value != in_effect and source.startswith(("environment ", "flag ")):
        raise _Refused(f"{key} is fixed at this name server by {source}. Nothing was changed.")
    try:
        option.parse(value)
    except ValueError:
        raise _Refused(f"{key}={value}: expected {option.allowed}. Nothing was changed.") from None
    return value


def _java_value(kind: str, text: str) -> str | None:
    """A value as Java reads it: any text is a boolean; None: no number, although the setting is a number."""
    if kind == "bool":
        return "true" if parse_boolean(text) else "false"
    if kind == "str":
        return text
    number = parse_long(text)
    return None if number is None else str(number)


def _may_change(option: Option, settings: Settings) -> bool:
    return option.run_time.allowed or option.key in settings.config_allow_list.split(";")


def _reason(option: Option) -> str:
    if option.about.shared:
        return (
            f"{option.key} is not in the allow-list ({option.run_time.why}); "
            f"a name server started with configAllowList={option.key} accepts it"
        )
    return f"{option.key} belongs to one process: set it in its environment ({option.variables[0]}) or properties file"


def _shown(option: Option, settings: Settings) -> str:
    """The text of a setting in 319; "0" for the defaults that Java leaves to Netty and shows as 0."""
    value = getattr(settings, option.name)
    return "0" if option.about.zero_is_default and value == option.default else option.show(value)


def shown(context: RequestContext) -> str:
    """The properties text of 319."""
    order, defaults = context.behaviour.shown_settings, context.behaviour.shown_defaults
    settings, shared = context.settings, context.shared
    values = {key: defaults.get(key, java.default) for key, java in KNOWN_TO_JAVA.items()}
    for key, text in {**settings.without_effect, **settings.java_paths, **shared}.items():
        if key in KNOWN_TO_JAVA:
            values[key] = _without_effect(KNOWN_TO_JAVA[key], text) or values[key]
    for key, option in options_by_key().items():
        if key in SHOWN_BY_JAVA or (option.about.shared and key in shared):
            values[key] = _shown(option, settings)
    return "".join(f"{key}={values[key]}\n" for key in order or sorted(values))
