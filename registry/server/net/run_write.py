"""Runs one write of a connection: decides whether it may, has it done, and makes an answer of every failure."""

from __future__ import annotations

import logging

from ...errors import RateExceeded, RegistryError, StoreUnavailable
from ...protocol.codes import RequestCode, ResponseCode, with_name
from ...protocol.command import Command
from ..requests.context import NotAllowed, Peer, RequestContext
from ..requests.writes import Write

logger = logging.getLogger(__name__)

_REGISTER = int(RequestCode.REGISTER_BROKER)
_LOOKUP = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


async def run_write(context: RequestContext, write: Write, command: Command, opaque: int, connection: Peer) -> bytes:
    """Answer one write."""
    try:
        authorization = context.authorization
        if authorization is None:  # what was decided of the write before, in another mode, says nothing of this one
            connection.caller = None
        elif command.code != _LOOKUP:  # on a lookup it was decided as on any read
            refusal = await authorization.of_write(command, connection)
            if refusal is not None:
                context.rates.check_refused(command.code, connection.host)
                raise NotAllowed(refusal.text)
        context.rates.check_request(command.code, connection.host)
        return await write(context, command, opaque, connection)
    except RateExceeded as error:  # the rates log it: not each one
        return context.replies.reply(opaque, ResponseCode.SYSTEM_BUSY, str(error))
    except NotAllowed as error:
        if command.code == _REGISTER:
            context.counters.registrations_refused += 1
        return context.replies.no_permission(opaque, str(error))
    except RegistryError as error:
        # Known failures with a text of their own: bad input, Redis away.
        if command.code == _REGISTER:
            context.counters.registrations_error += 1
        # the lease loop logs once that Redis is away; not again for each broker that tries meanwhile
        away = isinstance(error, StoreUnavailable) and not context.view.freshness.redis_answers
        asked = with_name(command.code, RequestCode)
        logger.log(logging.DEBUG if away else logging.WARNING, "request %s of %s: %s", asked, connection.address, error)
        return context.replies.system_error(opaque, str(error))
    except Exception as error:  # a defect of ours: the broker gets an error and tries again
        if command.code == _REGISTER:
            context.counters.registrations_error += 1
        logger.exception("request %s of %s failed", with_name(command.code, RequestCode), connection.address)
        return context.replies.system_error(opaque, f"{type(error).__name__}: {error}")
