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
    """A caller in this process wants to send something that the protocol cannot carry."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that the protocol does not allow.

    ``closes``: True: the Java NameServer closes the connection, because it cannot find the next frame. False: it
    answers with code 1, because only the content of the frame is wrong.
    """

    def __init__(self, message: str, *, closes: bool = False) -> None:
        super().__init__(message)
        self.closes = closes


class RegistrationRejected(RegistryError):
    """A registration was refused; definite: nothing was stored."""


class LimitExceeded(RegistryError):
    """A write exceeds what the registry stores; definite: nothing was stored. The message names the limit."""


class NotDecided(RegistryError):
    """A change would touch resources for which its sender's right was not checked; definite: nothing was changed.

    ``resources``: these resources, as ``cluster:NAME`` and ``broker:NAME``.
    """

    def __init__(self, resources: Iterable[str]) -> None:
        self.resources = tuple(dict.fromkeys(resources))
        super().__init__(f"the sender's right was not checked for {' '.join(self.resources)}")


class RateExceeded(RegistryError):
    """A client connects or writes more often than a limit allows; definite: nothing was done. The message names it."""


class StoreError(RegistryError):
    """Redis answered, but not as this project needs it (wrong type, wrong schema, wrong version, no rights)."""


class MissingRight(StoreError):
    """The Redis user may not run this command, or not with this key; definite: nothing was done."""


class NoNamespace(StoreError):
    """The namespace is not in this Redis, and the operation does not create it."""


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
    """A topic has no queue to send to; the message says why."""
