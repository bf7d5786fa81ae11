"""Makes replies as the Java NameServer writes them; constant replies are encoded once.

A reply has the server's own serializer (serializeType), whatever the request's is (docs/semantics.md 2).
"""

from __future__ import annotations

from functools import lru_cache

from ...protocol.codes import FLAG_RESPONSE, Encoding, ResponseCode
from ...protocol.command import Command, ReplyTemplate, encode_command
from ...protocol.watch import WatchAnswer


class Replies:
    """The replies of one front end.

    Args:
        version: MQVersion number that the replies claim.
        faq: the URL in the remark of code 17.
        encoding: of the headers.
    """

    def __init__(self, version: int, faq: str, encoding: Encoding = Encoding.JSON) -> None:
        self._version = version
        self._faq = faq
        self.encoding = encoding

        def template(code: int, remark: str | None = None, ext_fields: dict[str, str] | None = None) -> ReplyTemplate:
            return ReplyTemplate(code, remark, ext_fields, version=version, encoding=encoding)

        # In Java a reply with a header class has extFields, at least {}; others have none (docs/semantics.md 1).
        self.success = template(ResponseCode.SUCCESS)
        self.success_with_header = template(ResponseCode.SUCCESS, ext_fields={})

        @lru_cache(maxsize=4)
        def watch_answer(answer: WatchAnswer) -> tuple[ReplyTemplate, bytes]:
            ext_fields, body = answer.encode()
            return template(ResponseCode.SUCCESS, ext_fields=ext_fields), body

        self._watch_answer = watch_answer
        self.crc_mismatch = template(ResponseCode.SYSTEM_ERROR, "crc32 not match", {})
        self.disabled = template(ResponseCode.SYSTEM_ERROR, "disable")
        self.go_away = template(ResponseCode.GO_AWAY, "please go away")
        self.overloaded = template(
            ResponseCode.SYSTEM_BUSY,
            "[OVERLOAD]the name server has too many requests in flight, try another or later",
        )
        self.no_tables_yet = template(
            ResponseCode.SYSTEM_ERROR, "the name server has no tables yet: its registry's Redis is away; ask again"
        )
        self.unknown_for_now = template(
            ResponseCode.SYSTEM_ERROR,
            "the name server cannot tell now whether this topic exists: a moment ago its registry was empty, or out of "
            "reach; keep the route you have and ask again",
        )

    def reply(
        self,
        opaque: int,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
        ext_fields: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> bytes:
        """Encode a reply as one frame."""
        return encode_command(
            Command(
                code=code,
                opaque=opaque,
                flag=FLAG_RESPONSE,
                version=self._version,
                remark=remark,
                ext_fields=ext_fields,
                body=body,
                encoding=self.encoding,
            )
        )

    def watched(self, opaque: int, answer: WatchAnswer) -> bytes:
        """The answer to a route watch; equal answers to successive clients are encoded once."""
        encoded, body = self._watch_answer(answer)
        return encoded.reply(opaque, body)

    def system_error(self, opaque: int, remark: str) -> bytes:
        """Code 1: the request failed, for the reason in the remark."""
        return self.reply(opaque, ResponseCode.SYSTEM_ERROR, remark)

    def no_permission(self, opaque: int, remark: str) -> bytes:
        """Code 16: the rules refuse the request. Clients keep their routes; brokers log the remark and try again."""
        return self.reply(opaque, ResponseCode.NO_PERMISSION, remark)

    def topic_not_exist(self, opaque: int, topic: str | None) -> bytes:
        """Code 17, with Java's remark (``null`` for a missing topic)."""
        name = "null" if topic is None else topic
        return self.reply(
            opaque,
            ResponseCode.TOPIC_NOT_EXIST,
            f"No topic route info in name server for the topic: {name}\nSee {self._faq} for further details.",
        )
