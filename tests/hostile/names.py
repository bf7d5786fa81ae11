"""Names that were chosen so that Lua, as Redis has it, finds one hash for all of them.

Lua 5.1 hashes a text by its length and by every ``(length >> 5) + 1``-th character, from its end on. Names that differ
only between these characters share one hash, and so do the keys and the JSON texts that a script makes of them, if
they differ only where none of these is hashed either.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Iterable
from random import Random

MOST_BYTES = 255
_LETTERS = string.ascii_lowercase


def lua_hash(text: bytes) -> int:
    """The hash of luaS_newlstr in Lua 5.1."""
    found, step = len(text), (len(text) >> 5) + 1
    for at in range(len(text), step - 1, -step):
        found ^= ((found << 5) + (found >> 2) + text[at - 1]) & 0xFFFFFFFF
    return found


def _hashed_places(length: int, before: int, after: int) -> set[int]:
    """Which characters of a name count for the hash of a text with so many characters before and after it."""
    whole = before + length + after
    step = (whole >> 5) + 1
    return {at - 1 - before for at in range(whole, step - 1, -step)}


def crafted(count: int, *, prefixes: Iterable[str] = (), length: int = MOST_BYTES) -> list[str]:
    """So many names of one hash each; also behind each of these prefixes, and in the quotes of JSON."""
    forms = [(0, 0), (1, 1), *((len(prefix), 0) for prefix in prefixes)]
    free = sorted(set(range(length)) - set[int]().union(*(_hashed_places(length, *form) for form in forms)))
    names = []
    for number in range(count):
        name = ["x"] * length
        for place, at in enumerate(free[:4]):
            name[at] = _LETTERS[number // 26**place % 26]
        names.append("".join(name))
    return names


@functools.cache
def random_names(count: int, *, length: int = MOST_BYTES, seed: int = 1) -> list[str]:
    """So many names of the same length that nobody has chosen."""
    random = Random(seed)
    return ["".join(random.choices(string.ascii_letters, k=length)) for _ in range(count)]
