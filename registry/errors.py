"""All error classes of the project.

An error says which side is at fault and, for a write, whether the outcome is definite. After a definite error nothing
was changed. After an indefinite error the change may have happened; it is safe to repeat it.
"""

from __future__ import annotations

from collections.abc import Iterable


class RegistryError(Exception):
    """Base of every error that this project raises on purpose."""


class ConfigError(RegistryError):
    """A setting is wrong; the message names the key, the value, where it came from and what is allowed."""


class StartError(RegistryError):
    """Initialisation failed (port taken, Redis unreachable, ...); the process exits with 253."""


class ProtocolError(RegistryError):
    """Bytes on the wire that do not follow the remoting protocol."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something that the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow.

    ``closes``: whether the Java NameServer closes the connection (frames cannot be told apart after it)
    or answers with code 1 (a frame that can be answered, but whose content is wrong).
    """

    def __init__(self, message: str, *, closes: bool = False) -> None:
        super().__init__(message)
        self.closes = closes


class RegistrationRejected(RegistryError):
    """A registration was refused; definite: nothing was stored."""


class LimitExceeded(RegistryError):
    """More was to be stored than the registry keeps; definite: nothing was stored. The message names the limit."""


class NotDecided(RegistryError):
    """A change would touch more than its sender's right was decided on; definite: nothing was changed.

    resources: what was not decided on, as ``cluster:NAME`` and ``broker:NAME``.
    """

    def __init__(self, resources: Iterable[str]) -> None:
        self.resources = tuple(dict.fromkeys(resources))
        super().__init__(f"nobody decided on {' '.join(self.resources)}")


class RateExceeded(RegistryError):
    """Somebody does this more often than is granted; definite: nothing was done. The message names the limit."""


class StoreError(RegistryError):
    """Redis answered, but not as this project needs it (wrong type, wrong schema, wrong version, no rights)."""


class MissingRight(StoreError):
    """What was asked of Redis is not among the rights of the login; definite: nothing was done."""


class NoNamespace(StoreError):
    """The namespace is not in this Redis, and the operation makes none."""


class StoreUnavailable(RegistryError):
    """Redis did not answer in time or at all; indefinite: the change may have happened."""


class ChangesLost(StoreUnavailable):
    """Redis has lost changes that this process knew; definite: nothing was changed."""


class StoreRefusesWrites(StoreUnavailable):
    """Redis answers, but takes no writes now: disk or memory full, a replica, still loading; indefinite."""


class PeerUnavailable(RegistryError):
    """A name server or broker did not answer in time or at all; indefinite: the request may have taken effect."""


class PeerGoesAway(PeerUnavailable):
    """A name server or broker shuts down and sends its clients away; definite: the request was not performed."""


class ClientClosed(RegistryError):
    """The client was closed, never opened, or opened before this process was forked; definite."""


class NoRoute(RegistryError):
    """There is nowhere to send to; the message says why."""
