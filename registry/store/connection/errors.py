"""Turns redis-py's errors into this project's; :func:`mapped_errors` surrounds every call of Redis."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from typing import Final

from redis import exceptions

from ...errors import ChangesLost, MissingRight, StoreError, StoreRefusesWrites, StoreUnavailable
from .url import PASSWORD_VARIABLE

# Error codes of a Redis that answers but cannot write now, and what each code means.
_NO_WRITES_NOW: Final = {
    "LOADING": "it is still loading its data",
    "READONLY": "it is a replica, not the master",
    "MASTERDOWN": "it is a replica that has lost its master",
    "CLUSTERDOWN": "the cluster lacks a node for these keys",
    "TRYAGAIN": "the cluster is moving these keys",
    "NOREPLICAS": "fewer replicas are connected than min-replicas-to-write asks for",
    "MISCONF": "it cannot save its data: is its disk full, or not writable?",
    "OOM": "its memory is full (maxmemory)",
    "BUSY": "another script is running for long",
    "UNBLOCKED": "it has just become a replica",
}
# The codes that mean that another server is the master now.
_DEMOTED: Final = ("READONLY", "UNBLOCKED")

# redis-py turns some codes into exception classes, and removes these codes from the text.
_CLASSES: Final = {
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.TryAgainError: "TRYAGAIN",
}

# The error of a script whose user lacks a right: of Redis 6.2, and of 7 or later.
_REFUSALS: Final = ("The user executing the script can't", "ACL failure in script")
_NO_MASTER: Final = "No master found for "
# redis-py lists each Sentinel that did not answer after the text _NO_MASTER.
_SENTINEL_ADDRESS: Final = re.compile(r"\bhost=([^,]+),port=(\d+)")
_NO_FREE_CONNECTION: Final = ("No connection available", "no connection became free")
# The digest and line of the script in an error: before the text in Redis 6.2, after the text in 7 or later.
_SCRIPT_PLACE: Final = re.compile(
    r"(?:ERR )?Error running script \(call to f_\w{40}\): |@user_script: ?\d+: "
    r"| script: (?:\w{40}, )?on @user_script:\d+\.?"
)


@contextlib.contextmanager
def mapped_errors(what: str) -> Iterator[None]:
    """Turn redis-py's errors into ours.

    Args:
        what: the operation, for the message.

    Raises:
        StoreUnavailable: Redis did not answer in time.
        ChangesLost: Redis has lost changes that the caller knew.
        StoreRefusesWrites: Redis answers, but cannot write now.
        MissingRight: this Redis user may not run the command.
        StoreError: an error that a repetition does not cure.
    """
    try:
        yield
    except exceptions.AuthenticationError as error:
        raise _refused_login(what, error) from error
    except (exceptions.ConnectionError, exceptions.TimeoutError, OSError, TimeoutError) as error:
        if str(error).startswith(_NO_FREE_CONNECTION):
            raise StoreUnavailable(f"{what}: too many calls at once, no connection to Redis became free") from error
        raise StoreUnavailable(f"{what}: Redis is away: {_why_away(error)}") from error
    except exceptions.ResponseError as error:
        text = _SCRIPT_PLACE.sub("", str(error))
        if isinstance(error, exceptions.NoPermissionError) or any(refusal in text for refusal in _REFUSALS):
            raise MissingRight(
                f"{what}: this Redis user lacks a right: {text}; ACL LOG on the server names the command, and "
                "deploy/users.acl holds every right that is needed"
            ) from error
        if "MQLOST" in text:
            raise ChangesLost(f"{what}: {text}") from error
        code = _code(error, _NO_WRITES_NOW)
        if code:
            raise StoreRefusesWrites(f"{what}: Redis cannot write now: {_NO_WRITES_NOW[code]} ({text})") from error
        raise StoreError(f"{what}: {text}") from error
    except (exceptions.RedisError, exceptions.RedisClusterException) as error:  # the second class is no RedisError
        if isinstance(error.__cause__, exceptions.AuthenticationError):  # a node of a cluster refused the login
            raise _refused_login(what, error) from error
        raise StoreUnavailable(f"{what}: {error}") from error


def _why_away(error: Exception) -> str:
    """The text of redis-py's error, without its details about each Sentinel's connections."""
    text = str(error)
    if not text.startswith(_NO_MASTER):
        return text.rstrip(".")
    text, _, connections = text.partition(" : ")
    silent = ", ".join(":".join(address) for address in _SENTINEL_ADDRESS.findall(connections))
    if silent:
        return f"{text}; no answer from Sentinel {silent}"
    return f"{text}: the Sentinels know no master of this name, the end of the URL, or it is down"


def _refused_login(what: str, error: Exception) -> StoreError:
    return StoreError(
        f"{what}: Redis refuses this login: {error}; check user and password in the URL (the password may also "
        f"come from {PASSWORD_VARIABLE}), and that the user is on"
    )


def is_demoted(error: exceptions.ResponseError) -> bool:
    """Whether the error shows that its server is no longer the master."""
    return bool(_code(error, _DEMOTED))


def _code(error: exceptions.ResponseError, codes: Collection[str]) -> str:
    """The code of an error, if it is one of these; "" otherwise. In a script's error it may stand inside the text."""
    text = next((code for kind, code in _CLASSES.items() if isinstance(error, kind)), str(error))
    return next((c for c in codes if text.startswith(c) or f"-{c}" in text or f" {c} " in text), "")
