"""Logs the KV configuration now and then, as the Java NameServer does.

Anybody who reaches the port may have put it there: so the log gets the beginning of each value, of some of the keys.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Final

logger = logging.getLogger(__name__)

SHOWN_KEYS: Final = 1000
SHOWN_CHARACTERS: Final = 200
_LINES_AT_ONCE: Final = 50


def kv_lines(kv: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What is logged of it, line by line."""
    shown = 0
    for namespace, table in sorted(kv.items()):
        for key, value in sorted(table.items()):
            if shown == SHOWN_KEYS:
                yield f"KV config: {sum(map(len, kv.values())) - shown} more keys (mqregistry kv list shows all)"
                return
            shown += 1
            if len(value) > SHOWN_CHARACTERS:
                value = f"{value[:SHOWN_CHARACTERS]}... ({len(value)} characters)"
            yield f"KV config: namespace {namespace} key {key} value {value}"


async def log_kv(kv: Mapping[str, Mapping[str, str]]) -> None:
    """Log it; lookups are answered between the lines."""
    for number, line in enumerate(list(kv_lines(kv))):
        if number % _LINES_AT_ONCE == _LINES_AT_ONCE - 1:
            await asyncio.sleep(0)
        logger.info("%s", line)
