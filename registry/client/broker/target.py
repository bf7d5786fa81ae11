"""What a registrar needs of one place to register at: a name server on the wire, or Redis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from ...errors import RegistryError
from ...model import DataVersion
from ...protocol.codes import ResponseCode, with_name
from .payload import RegistrationPayload

RegistrationStatus = Literal["registered", "unchanged", "sent", "refused", "failed"]


class RegistrationRefused(RegistryError):
    """The server answered that it does not take the registration. ``code`` is a ResponseCode."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"refused with code {with_name(code, ResponseCode)}: {remark or 'without a reason'}")
        self.code = code


class RegistrationAnswer(NamedTuple):
    """The content of the answer to an accepted registration.

    master_addr, ha_server_addr: "" when the answer has none: to a master, or while there is none.
    order_topic_config: topic -> order configuration; None when the answer has none (``docs/semantics.md`` 26).
    """

    master_addr: str = ""
    ha_server_addr: str = ""
    order_topic_config: Mapping[str, str] | None = None


class RegistrationResult(NamedTuple):
    """How the last registration at one server went.

    server: the address of the name server; for Redis its URL and namespace.
    status: ``registered``; ``unchanged``, it had the table already (322); ``sent``, oneway; ``refused``, it answered
        with an error; ``failed``, it did not answer.
    at: when that was known, in seconds since the epoch. elapsed_ms: how long it took.
    error: what went wrong; "" unless refused or failed. failures: how many in a row.
    answer: to the last registration that was accepted. data_version: of the table that was sent with it.
    """

    server: str
    status: RegistrationStatus
    at: float
    elapsed_ms: float
    error: str = ""
    failures: int = 0
    answer: RegistrationAnswer = RegistrationAnswer()
    data_version: DataVersion | None = None

    @property
    def ok(self) -> bool:
        """Whether the server has the table, as far as that is known."""
        return self.status not in ("refused", "failed")


class RegistrationTarget(Protocol):
    """A name server, or Redis. One call at a time but for heartbeat; each raises RegistryError or TimeoutError.

    Attributes:
        name: the key of its results.
        on_lost: called when the connection is lost.
    """

    name: str
    on_lost: Callable[[], None]

    @property
    def generation(self) -> int:
        """A number that grows whenever what was registered may be gone: with each new connection."""

    async def open(self) -> None:
        """Connect, unless there is a connection."""

    async def register(self, payload: RegistrationPayload) -> RegistrationAnswer | None:
        """Register; returns None where there is no answer (oneway).

        Raises:
            RegistrationRefused: the server answered with an error.
        """

    async def is_changed(self, version: DataVersion) -> bool:
        """Ask whether the server knows the broker by another version, or not at all (322)."""

    async def heartbeat(self, version: DataVersion) -> None:
        """Refresh the broker at the server, if there is a connection (904)."""

    async def unregister(self) -> None:
        """Remove the broker at the server (104)."""

    def reset(self) -> None:
        """Drop the connection; the next ``open`` makes another."""

    async def close(self) -> None:
        """Close the connection to the target."""

    def abort(self) -> None:
        """Close the connection without waiting."""
