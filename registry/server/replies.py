"""Replies, as the Java NameServer writes them; those that never differ are made once.

A reply keeps the server's own serializer (JSON), whatever the request used (semantics 2).
"""

from __future__ import annotations

from registry.protocol.codes import FLAG_RESPONSE, SERVER_VERSION, ResponseCode
from registry.protocol.command import Command, ReplyTemplate, encode_command

FAQ = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"

# A code without a reply header class answers without extFields, one with a class at least with {} (semantics 1).
SUCCESS = ReplyTemplate(ResponseCode.SUCCESS)
SUCCESS_WITH_HEADER = ReplyTemplate(ResponseCode.SUCCESS, ext_fields={})
CRC_MISMATCH = ReplyTemplate(ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
DISABLED = ReplyTemplate(ResponseCode.SYSTEM_ERROR, "disable")
GO_AWAY = ReplyTemplate(ResponseCode.GO_AWAY, "please go away")
OVERLOADED = ReplyTemplate(
    ResponseCode.SYSTEM_BUSY, "[OVERLOAD]the name server has too many requests in flight, try another or later"
)
UNKNOWN_FOR_NOW = ReplyTemplate(
    ResponseCode.SYSTEM_ERROR,
    "the name server cannot tell now whether this topic exists: it has lost touch with its registry; "
    "keep the route you have and ask again",
)


def reply(
    opaque: int,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    ext_fields: dict[str, str] | None = None,
    body: bytes = b"",
) -> bytes:
    """Any reply as one frame."""
    return encode_command(
        Command(
            code=code,
            opaque=opaque,
            flag=FLAG_RESPONSE,
            version=SERVER_VERSION,
            remark=remark,
            ext_fields=ext_fields,
            body=body,
        )
    )


def system_error(opaque: int, remark: str) -> bytes:
    """Code 1: the request failed; the sender tries again, or shows the remark to somebody."""
    return reply(opaque, ResponseCode.SYSTEM_ERROR, remark)


def topic_not_exist(opaque: int, topic: str | None) -> bytes:
    """Code 17, the remark as in Java (a missing topic reads ``null``)."""
    name = "null" if topic is None else topic
    return reply(
        opaque,
        ResponseCode.TOPIC_NOT_EXIST,
        f"No topic route info in name server for the topic: {name}\nSee {FAQ} for further details.",
    )
