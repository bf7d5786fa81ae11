"""One place to register at, as the registrar sees it, whatever it speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from registry.client.broker.update import Update
from registry.errors import RegistryError
from registry.model import DataVersion

Status = Literal["registered", "unchanged", "sent", "refused", "failed"]


class Refused(RegistryError):
    """The server answered, and did not take the registration. code: a ResponseCode."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"refused with code {code}: {remark or 'without a reason'}")
        self.code = code


class Answer(NamedTuple):
    """What an accepted registration was answered with.

    master_addr, ha_server_addr: "" = not told, as to a master, or while there is none.
    order_topic_config: topic -> configuration; None: not told.
    """

    master_addr: str = ""
    ha_server_addr: str = ""
    order_topic_config: Mapping[str, str] | None = None


class ServerResult(NamedTuple):
    """How the last registration at one server went.

    status: ``registered``; ``unchanged``, it had the table already (322); ``sent``, oneway; ``refused``, it said
        no; ``failed``, it did not answer.
    error: for refused and failed: what went wrong. at: seconds since the epoch, when that was known.
    failures: how many in a row. answer: of the last registration that was accepted; data_version: what that said.
    """

    server: str
    status: Status
    at: float
    elapsed_ms: float
    error: str = ""
    failures: int = 0
    answer: Answer = Answer()
    data_version: DataVersion | None = None

    @property
    def ok(self) -> bool:
        """Whether the server has the table, as far as can be known."""
        return self.status not in ("refused", "failed")


class Server(Protocol):
    """A name server, or Redis. One call at a time but for heartbeat; each raises RegistryError or TimeoutError.

    ``name`` is what results are found under. ``generation`` grows whenever what was registered may be gone: with
    each new connection. ``on_lost`` is called when the connection is lost.
    """

    name: str
    on_lost: Callable[[], None]

    @property
    def generation(self) -> int:
        """See above."""

    async def open(self) -> None:
        """Connect, unless that is so."""

    async def register(self, update: Update) -> Answer | None:
        """Register; None: nobody answers (oneway).

        Raises:
            Refused: the server said no.
        """

    async def is_changed(self, version: DataVersion) -> bool:
        """Whether the server knows the broker by another version, or not at all (322)."""

    async def heartbeat(self, version: DataVersion) -> None:
        """A sign of life, if there is a connection."""

    async def unregister(self) -> None:
        """Say goodbye (104)."""

    def reset(self) -> None:
        """The next ``open`` connects anew."""

    async def close(self) -> None:
        """Hang up."""

    def abort(self) -> None:
        """Hang up without waiting."""
