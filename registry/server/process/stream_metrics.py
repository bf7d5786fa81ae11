"""Reads lengths of the streams and positions of their readers for ``/metrics``, whichever process sweeps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ...errors import RegistryError, StoreUnavailable
from ...store.store import Store
from ...store.streams import StreamStore, Survey
from ...tasks import cancelled, pause

logger = logging.getLogger(__name__)

SURVEY_EVERY_S: Final = 10.0


async def survey_streams(store: Store, report: Callable[[Survey | None], None]) -> None:
    """Report the streams and their readers every ten seconds, None when they are not known. Runs until cancelled."""
    streams = StreamStore(store)
    while not cancelled():
        try:
            report(await streams.survey())
        except RegistryError as error:
            report(None)
            if not isinstance(error, StoreUnavailable):  # the workers log that
                logger.error("cannot read the state of the streams: %s", error)
        await pause(SURVEY_EVERY_S)
