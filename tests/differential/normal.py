"""Answers in a form in which equal ones are equal: order that Java leaves to its hash tables is taken out, no more."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from tests.interop.wire import parse_json

from .wire import Answer

# Objects whose members Java writes in one order, that of their names; every other object is a map.
RECORDS = (
    {"brokerAddrTable", "clusterAddrTable"},
    {"brokerAddrs", "brokerName", "cluster", "enableActingMaster", "zoneName"},
    {"brokerName", "perm", "readQueueNums", "topicSysFlag", "topicSynFlag", "writeQueueNums"},
    {"brokerDatas", "filterServerTable", "orderTopicConf", "queueDatas", "topicQueueMappingByBroker"},
    {"brokerAddr", "topicList"},
    {"brokerMemberGroup"},
    {"table"},
)
EXCEPTION = re.compile(r"Exception|Error|\(\w+\.java:\d+\)|, null$")
BARE_KEY = re.compile(rb"[{,]-?\d+:")
CLOCK_WINDOW_MS = 3_600_000


def normal(value: Any) -> Any:
    """Maps and arrays in one order; records keep theirs."""
    if isinstance(value, dict):
        keys = list(value)
        plain = {key: normal(value[key]) for key in sorted(keys)}
        if any(set(value) <= record for record in RECORDS) and keys != sorted(keys):
            plain["(order of members)"] = keys
        return plain
    if isinstance(value, list):
        return sorted((normal(item) for item in value), key=repr)
    return value


def body_of(answer: Answer) -> Any:
    if not answer.body:
        return None
    try:
        return normal(parse_json(answer.body))
    except ValueError:
        return answer.body.decode(errors="replace")


def shape(answer: Answer | None, edit: Callable[[Any], Any] = lambda body: body) -> dict[str, Any]:
    """What is compared of an answer."""
    if answer is None:
        return {"answer": "hung up"}
    remark = answer.remark
    if answer.code == 1 and (remark is None or EXCEPTION.search(remark)):
        remark = "(exception text)"
    return {
        "code": answer.code,
        "remark": remark,
        "ext": answer.ext,
        "flag": answer.flag,
        "encoding": answer.encoding,
        "bare keys": bool(BARE_KEY.search(answer.body)),
        "body": edit(body_of(answer)),
    }


def without_clock(body: Any) -> Any:
    """A data version that the server made up holds its clock; generated timestamps are small."""
    if isinstance(body, dict) and abs(body.get("timestamp", 0) - time.time() * 1000) < CLOCK_WINDOW_MS:
        return body | {"timestamp": "(the server's clock)"}
    return body


def accept_exception_text(java: dict[str, Any], ours: dict[str, Any]) -> None:
    """Where Java says what it caught, ours may say anything, but something."""
    if java.get("remark") == "(exception text)" and java["code"] == ours.get("code") and ours["remark"]:
        ours["remark"] = java["remark"]


def differences(java: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """One line for each part that differs; nested tables are walked so that only what differs shows."""
    lines: list[str] = []
    _walk("", java, ours, lines)
    return lines


def _walk(path: str, java: Any, ours: Any, lines: list[str]) -> None:
    if java == ours:
        return
    if isinstance(java, dict) and isinstance(ours, dict):
        for key in sorted(java.keys() | ours.keys()):
            _walk(f"{path}/{key}", java.get(key, "(absent)"), ours.get(key, "(absent)"), lines)
    else:
        lines.append(f"{path or '/'}\n      java: {java!r}\n      ours: {ours!r}")
