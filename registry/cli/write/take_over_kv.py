"""Imports the KV configuration of the Java NameServer whose properties file a front end was started with."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import click

from ...config.settings import Settings
from ...errors import RegistryError, StoreUnavailable
from ...events.by import WORKER, front_end_name, this_process
from ...store.snapshot import read_kv
from ...store.store import Store
from ...tasks import wait_within
from .kv import carry_out_import, plan_import

logger = logging.getLogger(__name__)

KEY: Final = "kvConfigPath"
_RETRY_EVERY_S: Final = 1.0


async def take_over_kv(store: Store, settings: Settings, stopping: asyncio.Event) -> None:
    """Import the file that kvConfigPath names while the namespace has no KV configuration.

    A KV namespace stays in Redis when its last key is deleted, so this never brings deleted keys back. If the KV
    configuration in Redis differs from the file, the log has the command that imports the file. Errors are logged.
    While Redis is away, this waits for Redis, or for ``stopping``.
    """
    file = settings.without_effect.get(KEY, "").strip()
    while file and not stopping.is_set():
        try:
            await _take_over(store, settings, Path(file))
            break
        except StoreUnavailable:
            await wait_within(stopping, _RETRY_EVERY_S)
        except (RegistryError, click.ClickException) as error:
            logger.warning("%s: not imported: %s", KEY, error)
            break


async def _take_over(store: Store, settings: Settings, file: Path) -> None:
    known = await read_kv(store)
    if not await asyncio.to_thread(file.is_file):
        if not known:
            logger.warning(
                "%s: there is no file %s, and no KV configuration in Redis; if the Java NameServer had some: "
                "mqregistry kv import FILE", KEY, file,
            )  # fmt: skip
        return
    plan = await plan_import(store, file)
    if not plan.changes and not plan.namespaces:
        return
    if known:
        logger.warning(
            "%s: %s has %d key(s) that are missing or different in Redis; Redis's values are used. To import them: "
            "mqregistry kv import %s (--dry-run shows them)", KEY, file, len(plan.changes), file,
        )  # fmt: skip
        return
    await carry_out_import(store, plan, by=this_process(WORKER, front_end=front_end_name(settings.listen_port)))
    logger.info("%s: %d key(s) imported from %s, as Redis had no KV configuration", KEY, len(plan.changes), file)
