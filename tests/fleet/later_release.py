"""A later release than this one, made of this one: what a front end of schema 2.3, or 3.0, would do.

Run as a program: ``later_release.py 2.3 worker`` is a worker process, ``later_release.py 3.0 cli ...`` the command
line. It adds one thing of each kind that a minor may add (see mqregistry.events.changes): fields of the broker row and
of the live info, a member of queue data, a member of an event, and an event of a type of its own; and reads what it
wrote.
"""

from __future__ import annotations

import hashlib
import sys

from mqregistry.events import cells, changes

# Before anything else takes its own copy of them.
changes.SCHEMA_MAJOR, changes.SCHEMA_MINOR = map(int, sys.argv[1].split("."))

from mqregistry.model import QueueData  # noqa: E402
from mqregistry.protocol.command import Command  # noqa: E402
from mqregistry.server.requests import reads  # noqa: E402
from mqregistry.server.requests import registration as register  # noqa: E402
from mqregistry.server.requests.context import RequestContext  # noqa: E402
from mqregistry.store import route_writes as routes  # noqa: E402
from mqregistry.store import scripts  # noqa: E402

GRADE = "gold"
GET_GRADES = 19_001
"""A request code of its own: the grades that this worker has heard of, as extFields."""

_ROW = "-- every registration that counts gets a new n"
_ADDED = f"""
call("HSET", row_key, "grade", "{GRADE}", "grade_rev", rev)
call("HSET", live_key, "grade", "{GRADE}", "grade_n", tonumber(call("HGET", KEYS[1], "n")) + 1)
if changed then
  emit("broker_graded", ',"ignorable":true,"broker_name":' .. cjson.encode(name) .. ',"grade":"{GRADE}"')
end
"""


def write_more() -> None:
    """register_broker writes two fields, one member and one event more; queue data has one member more."""
    found = dict(scripts.load())
    script = found["register_broker"]
    source = script.source.replace(_ROW, _ADDED + _ROW).replace(
        """local members = ',"who":'""", f"""local members = ',"grade":"{GRADE}","who":'"""
    )
    assert source.count(GRADE) == 4, "register_broker.lua is not what this was made for"
    sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    found["register_broker"] = script._replace(source=source, sha=sha)
    scripts.load = lambda: found  # type: ignore[assignment]

    encode = routes._encode

    def encode_more(value: object) -> bytes:
        """Queue data by itself, in a list, or as a topic's in a dict."""
        text = encode(value)
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        if not any(isinstance(one, QueueData) for one in inside):
            return text
        body = text[:-1] if isinstance(value, dict) else text
        return body.replace(b"}", b',"g":1}') + (b"}" if isinstance(value, dict) else b"")

    routes._encode = encode_more  # type: ignore[assignment]

    digest_of = register.digest_of
    register.digest_of = lambda command: f"{sys.argv[1]} {digest_of(command)}"


class BrokerGraded(changes.BrokerChange, frozen=True, tag="broker_graded"):
    """An event as the later release knows it."""

    grade: str = ""


def read_more() -> None:
    """Events have a grade, it is kept, and a request asks for it."""
    from typing import Union

    import msgspec

    changes._decoder = msgspec.json.Decoder(Union[(*changes.EVENTS, BrokerGraded)])
    grades: dict[str, str] = {}

    def grade(change: BrokerGraded) -> tuple[()]:
        grades[change.broker_name] = change.grade
        return ()

    cells.MEANINGS[BrokerGraded] = grade

    def get_grades(front_end: RequestContext, command: Command, opaque: int) -> bytes:
        return front_end.replies.reply(opaque, ext_fields=dict(grades))

    reads.READS[GET_GRADES] = get_grades


if __name__ == "__main__":
    write_more()
    read_more()
    if sys.argv[2] == "worker":
        from mqregistry.server.process.worker import main

        sys.exit(main(sys.stdin.read()))
    from mqregistry.cli import main as command_line

    sys.argv[1:] = sys.argv[3:]
    command_line()
