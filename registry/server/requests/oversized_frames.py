"""Answers requests whose frames are longer than the maximum. Only the first bytes of such a frame are kept."""

from __future__ import annotations

from typing import Final

from ...errors import RemoteProtocolError
from ...protocol.codes import FLAG_ONEWAY, FLAG_RESPONSE, RequestCode
from ...protocol.command import decode_command
from ...protocol.frame import MAX_FRAME_BYTES
from .replies import Replies

_MOST_ANSWERED_BYTES: Final = 16 * MAX_FRAME_BYTES  # the connection of a longer frame is closed without an answer
_SPLITS: Final = (
    "set enableSplitRegistration=true (RocketMQ 5.x: splitRegistrationSize topics a request) or compressedRegister=true"
)


def oversized_reply(replies: Replies, length: int, came: bytes) -> bytes | None:
    """Code 1 to a request whose frame has too many bytes (length); ``came``: its first bytes.

    None: the frame gets no answer, or its header is longer than these first bytes.
    """
    if not len(came) < length <= _MOST_ANSWERED_BYTES:
        return None
    try:
        command = decode_command(came)
    except RemoteProtocolError:
        return None
    if command.flag & (FLAG_ONEWAY | FLAG_RESPONSE) or command.opaque is None:
        return None
    splits = f": {_SPLITS} at the broker" if command.code == RequestCode.REGISTER_BROKER else ""
    remark = f"a request of {length + 4} bytes: at most {MAX_FRAME_BYTES} are taken; nothing was changed{splits}"
    return replies.system_error(command.opaque, remark)
