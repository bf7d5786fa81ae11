"""Runs one write and answers it, whatever happens: every error becomes an answer that says what was wrong."""

from __future__ import annotations

import logging

from ...errors import RateExceeded, RegistryError, StoreUnavailable
from ...protocol.codes import RequestCode, ResponseCode
from ...protocol.command import Command
from ..requests.context import Peer, RequestContext
from ..requests.writes import Write

logger = logging.getLogger(__name__)


async def run_write(context: RequestContext, write: Write, command: Command, opaque: int, peer: Peer) -> bytes:
    """The answer to a request: the handler's, or that of its error."""
    try:
        context.rates.check_request(command.code, peer.host)
        return await write(context, command, opaque, peer)
    except RateExceeded as error:  # the rates log it: not each one
        return context.replies.reply(opaque, ResponseCode.SYSTEM_BUSY, str(error))
    except RegistryError as error:
        # Known failures with a text of their own: bad input, Redis away.
        if command.code == RequestCode.REGISTER_BROKER:
            context.counters.registrations_error += 1
        # the lease loop logs once that Redis is away; not again for each broker that tries meanwhile
        away = isinstance(error, StoreUnavailable) and not context.view.freshness.redis_answers
        logger.log(
            logging.DEBUG if away else logging.WARNING, "request %d of %s: %s", command.code, peer.address, error
        )
        return context.replies.system_error(opaque, str(error))
    except Exception as error:  # a defect of ours: the broker gets an error and tries again
        if command.code == RequestCode.REGISTER_BROKER:
            context.counters.registrations_error += 1
        logger.exception("request %d of %s failed", command.code, peer.address)
        return context.replies.system_error(opaque, f"{type(error).__name__}: {error}")
