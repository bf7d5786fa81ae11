"""Parses the words for rights and resources: ours, and those of RocketMQ's ACL 2.0 (``Pub`` on ``Topic:orders*``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .rights import KINDS, READING, WRITING, Kind, Right

_ALL: Final = tuple(Right)

# Kind of resource (None: everything) -> ACL 2.0's action -> rights. Topics have no List at a name server.
_ACTIONS: Final[dict[Kind | None, dict[str, tuple[Right, ...]]]] = {
    Kind.TOPIC: {
        **dict.fromkeys(("pub", "sub", "get"), (Right.ROUTE,)),
        **dict.fromkeys(("create", "update", "delete"), (Right.TOPIC_WRITE,)),
        **dict.fromkeys(("all", "any"), (Right.ROUTE, Right.TOPIC_WRITE)),
    },
    Kind.CLUSTER: {
        **dict.fromkeys(("get", "list"), (Right.LIST,)),
        **dict.fromkeys(("create", "update", "delete"), (Right.REGISTER, Right.TOPIC_WRITE)),
        **dict.fromkeys(("all", "any"), (Right.LIST, Right.REGISTER, Right.TOPIC_WRITE)),
    },
    None: {
        **dict.fromkeys(("pub", "sub"), (Right.ROUTE,)),
        **dict.fromkeys(("get", "list"), tuple(right for right in _ALL if right in READING)),
        **dict.fromkeys(("create", "update", "delete"), tuple(right for right in _ALL if right in WRITING)),
        **dict.fromkeys(("all", "any"), _ALL),
    },
}


def parse_rights(texts: Iterable[str], kind: Kind | None) -> tuple[Right, ...]:
    """Parse our words or ACL 2.0's actions; ``all``: every right that can be on this kind of resource.

    Raises:
        ValueError: a word is unknown; the message names the known words.
    """
    found: set[Right] = set()
    for text in texts:
        word = text.strip().lower()
        action = _ACTIONS.get(kind, {}).get(word)
        if word in _ALL:
            found.add(Right(word))
        elif word == "all":
            found.update(right for right in _ALL if kind is None or kind in KINDS[right])
            if kind is Kind.TOPIC:  # register on topics would limit a broker to these topics
                found.discard(Right.REGISTER)
        elif action is not None:
            found.update(action)
        else:
            more = ", ".join(name.capitalize() for name in _ACTIONS.get(kind, {}))
            raise ValueError(
                f"{text!r} is no right on {kind or 'everything'}: expected {', '.join(_ALL)}, all"
                + (f", or of ACL 2.0 {more}" if more else "")
            )
    return tuple(right for right in _ALL if right in found)


def parse_resource(text: str) -> tuple[Kind | None, str]:
    """Parse ``topic:orders-*`` (or ``Topic:`` of ACL 2.0) into kind and pattern; ``*``: everything.

    Raises:
        ValueError: the text has neither form.
    """
    if text == "*":
        return None, "*"
    kind, colon, pattern = text.partition(":")
    if not colon or not pattern or kind.lower() not in tuple(Kind):
        kinds = ", ".join(f"{kind}:NAME" for kind in Kind)
        raise ValueError(f"{text!r}: expected {kinds} (* in a name stands for any characters), or '*' for everything")
    return Kind(kind.lower()), pattern
