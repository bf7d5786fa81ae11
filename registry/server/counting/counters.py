"""The counters of one worker: plain integers, so that counting costs next to nothing.

Lookups (105) are counted only by their results; :meth:`Counters.report` computes their ``requests_total`` from these.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import Final

from ...histograms import DurationHistogram, Told
from ...protocol.codes import Encoding, RequestCode, ResponseCode
from ...protocol.watch import ROUTE_WATCH

_LOOKUP: Final = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
_OTHER: Final = -1
_KNOWN_REQUESTS: Final = frozenset((*map(int, RequestCode), ROUTE_WATCH))
_RESULTS: Final = {int(code): code.name.lower() for code in ResponseCode}
# Where a reply has its code: after the length word, the mark word and, in a JSON header, the name of the first member.
_MARK_AT: Final = 4
_HEADER_AT: Final = 8
_JSON_CODE: Final = b'{"code":'

# The group of a request code in the metric request_seconds; other writes are in "write".
_GROUPS: Final = {int(RequestCode.REGISTER_BROKER): "registration", int(RequestCode.BROKER_HEARTBEAT): "heartbeat",
                  int(RequestCode.QUERY_DATA_VERSION): "heartbeat", _LOOKUP: "lookup"}  # fmt: skip
GROUPS: Final = ("lookup", "read", "heartbeat", "registration", "write")


class Closed(StrEnum):
    """Why a connection was closed; if several reasons apply, the first one counts."""

    CLIENT = "client"  # the peer or the network closed it
    LATE = "late"  # the client closed it while this process was paused, and may be connected elsewhere by now
    IDLE = "idle"
    BAD_FRAME = "bad_frame"
    SLOW_FRAME = "slow_frame"
    SLOW_CLIENT = "slow_client"
    HANDSHAKE = "handshake"  # its first bytes did not come in time
    TLS = "tls"
    TOO_MANY = "too_many"
    RATE = "rate"
    MEMORY = "memory"
    RULES = "rules"  # its user or certificate is no longer valid
    BROKER_EXPIRED = "broker_expired"
    SHUTDOWN = "shutdown"


_ENDS: Final = (Closed.CLIENT, Closed.BAD_FRAME, Closed.TLS, Closed.RULES)


def cause_of(closed_as: Closed, *, was_reset: bool) -> str:
    """Why a closed connection means that its broker is gone; "" = it does not: the front end chose to close it."""
    if closed_as is Closed.CLIENT and was_reset:
        return "reset"
    return closed_as.value if closed_as in _ENDS else ""


def code_of(reply: bytes) -> int:
    """The response code of an encoded reply."""
    if reply[_MARK_AT] == Encoding.JSON:
        return int(reply[_HEADER_AT + len(_JSON_CODE) : reply.index(b",", _HEADER_AT)])
    return int.from_bytes(reply[_HEADER_AT : _HEADER_AT + 2], signed=True)


@dataclass(slots=True)
class Counters:
    """Counts since this worker's start."""

    bad_frames: int = 0
    lookups_error: int = 0
    lookups_found: int = 0  # without those in lookups_known
    lookups_known: int = 0  # found, and answered from the lookup cache
    lookups_not_found: int = 0
    registrations_changed: int = 0
    registrations_error: int = 0
    registrations_refused: int = 0
    registrations_unchanged: int = 0
    slow_clients: int = 0
    stale_answers: int = 0
    requests: Counter[tuple[int, int]] = field(default_factory=Counter)
    """By request code (-1: an unknown one) and response code, without the lookups that ``lookups_...`` count."""
    closed: dict[Closed, int] = field(default_factory=lambda: dict.fromkeys(Closed, 0))
    durations: dict[str, DurationHistogram] = field(
        default_factory=lambda: {group: DurationHistogram() for group in GROUPS}
    )

    def answered(self, request_code: int, reply: bytes) -> None:
        """Count a request and its reply, also a reply that is not sent because the request was one-way."""
        self.requests[request_code if request_code in _KNOWN_REQUESTS else _OTHER, code_of(reply)] += 1

    def took(self, group: str, since_s: float) -> None:
        """Count the time that a request took; ``since_s``: its start, as ``perf_counter`` gave it."""
        self.durations[group].add(perf_counter() - since_s)

    def wrote(self, request_code: int, reply: bytes, since_s: float) -> None:
        """Count an executed request of a write queue; a lookup's handler counts the results found and not found."""
        if request_code != _LOOKUP or code_of(reply) not in (ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST):
            self.answered(request_code, reply)
        self.took(_GROUPS.get(request_code, "write"), since_s)

    def report(self) -> dict[str, int]:
        """The counts by metric with its labels, for the status line."""
        found = self.lookups_found + self.lookups_known
        return {
            'lookups_total{result="found"}': found,
            'lookups_total{result="not_found"}': self.lookups_not_found,
            'lookups_total{result="error"}': self.lookups_error,
            "stale_answers_total": self.stale_answers,
            'registrations_total{path="unchanged"}': self.registrations_unchanged,
            'registrations_total{path="changed"}': self.registrations_changed,
            'registrations_total{path="refused"}': self.registrations_refused,
            'registrations_total{path="error"}': self.registrations_error,
            "bad_frames_total": self.bad_frames,
            "slow_clients_total": self.slow_clients,
            **{f'connections_closed_total{{reason="{reason}"}}': number for reason, number in self.closed.items()},
            **self._requests(),
        }

    def _requests(self) -> dict[str, int]:
        lookups = {
            (_LOOKUP, int(ResponseCode.SUCCESS)): self.lookups_found + self.lookups_known,
            (_LOOKUP, int(ResponseCode.TOPIC_NOT_EXIST)): self.lookups_not_found,
            (_LOOKUP, int(ResponseCode.SYSTEM_ERROR)): self.lookups_error,
        }
        found: Counter[str] = Counter()
        for (request_code, code), number in (*self.requests.items(), *lookups.items()):
            asked = str(request_code) if request_code in _KNOWN_REQUESTS else "other"
            found[f'requests_total{{code="{asked}",result="{_RESULTS.get(code, "other")}"}}'] += number
        return dict(found)

    def told_durations(self) -> dict[str, Told]:
        """The histograms by metric with its labels, for the status line."""
        return {f'request_seconds{{group="{group}"}}': one.told() for group, one in self.durations.items()}
