"""Answers a request whose frame is longer than any that is taken, before its connection is closed."""

from __future__ import annotations

from typing import Final

from ...errors import RemoteProtocolError
from ...protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode
from ...protocol.command import decode_command
from ...protocol.frame import MAX_FRAME_BYTES, FrameReader
from .replies import Replies

# A longer one is no request of anybody; the bytes of others are read, and dropped, until they end.
_MOST_BYTES: Final = 16 * MAX_FRAME_BYTES
_SPLITS: Final = (
    "set enableSplitRegistration=true (RocketMQ 5.x: splitRegistrationSize topics a request) or compressedRegister=true"
)


def refuse_too_long(replies: Replies, reader: FrameReader) -> tuple[bytes, int] | None:
    """The answer to the request that ended the stream, and how many bytes of it are still to come.

    None: it is no request that can be answered, or its header has not come with the beginning of its frame.
    """
    if reader.too_long is None or reader.too_long[0] > _MOST_BYTES:
        return None
    length, came = reader.too_long
    try:
        command = decode_command(came)
    except RemoteProtocolError:
        return None
    left = length - len(came)
    if command.flag & (FLAG_ONEWAY | FLAG_RESPONSE) or command.opaque is None or left <= 0:
        return None
    remark = f"a request of {length + 4} bytes: at most {MAX_FRAME_BYTES} are taken; nothing was changed"
    if command.code == RequestCode.REGISTER_BROKER:
        remark += f": {_SPLITS} at the broker"
    return replies.system_error(command.opaque, remark), left
