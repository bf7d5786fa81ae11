"""How the streams and their readers stand, for ``/metrics``: read by the supervisor, whoever sweeps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from registry.errors import RegistryError, StoreUnavailable
from registry.store.store import Store
from registry.store.streams import StreamStore, Survey
from registry.tasks import cancelled, pause

logger = logging.getLogger(__name__)

SURVEY_EVERY_S: Final = 10.0


async def watch_streams(store: Store, tell: Callable[[Survey | None], None]) -> None:
    """Tell every ten seconds how they stand; None: not known now. Runs until cancelled."""
    streams = StreamStore(store)
    while not cancelled():
        try:
            tell(await streams.survey())
        except RegistryError as error:
            tell(None)
            if not isinstance(error, StoreUnavailable):  # that one, everybody tells
                logger.error("cannot see how the streams stand: %s", error)
        await pause(SURVEY_EVERY_S)
