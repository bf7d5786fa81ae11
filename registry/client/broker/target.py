"""Defines the outcome of a registration at one server, a name server or Redis: answer, refusal, result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ...errors import RegistryError
from ...model import DataVersion
from ...protocol.codes import ResponseCode, with_name

RegistrationStatus = Literal["registered", "unchanged", "sent", "refused", "failed"]


class RegistrationRefused(RegistryError):
    """The server refused the registration. ``code`` is a ResponseCode."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"refused with code {with_name(code, ResponseCode)}: {remark or 'without a reason'}")
        self.code = code


class RegistrationAnswer(NamedTuple):
    """The content of the answer to an accepted registration.

    ``master_addr``, ``ha_server_addr``: "" if the broker is a master, or its brokerName has no master now.
    ``order_topic_config``: topic -> order configuration; None when the answer has none (``docs/semantics.md`` 26).
    """

    master_addr: str = ""
    ha_server_addr: str = ""
    order_topic_config: Mapping[str, str] | None = None


class RegistrationResult(NamedTuple):
    """The result of the last registration at one server.

    ``server``: the address of the name server; for Redis its URL and namespace.
    ``status``: ``registered``; ``unchanged``: the server had the table already (322); ``sent``: oneway, without an
    answer;
        ``refused``: the server answered with an error; ``failed``: it did not answer.
    ``at``: when the registration ended, in seconds since 1970. ``elapsed_ms``: how long it took.
    ``error``: what went wrong; "" unless refused or failed. ``failures``: registrations in a row that failed or were
    refused.
    ``answer``, ``data_version``: the answer to the last accepted registration, and the version of its table.
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
        """Whether the server has the table, as far as this program knows."""
        return self.status not in ("refused", "failed")
