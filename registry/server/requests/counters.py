"""The counters of one worker: plain integers, so that counting costs next to nothing."""

from __future__ import annotations


class Counters:
    """Counts since this worker's start; :meth:`report` has the names that ``/metrics`` shows."""

    __slots__ = (
        "bad_frames", "lookups_error", "lookups_found", "lookups_known", "lookups_not_found",
        "registrations_changed", "registrations_error", "registrations_refused", "registrations_unchanged",
        "requests", "slow_clients", "stale_answers",
    )  # fmt: skip

    def __init__(self) -> None:
        for name in self.__slots__:
            setattr(self, name, 0)

    bad_frames: int
    lookups_error: int
    lookups_found: int  # without those in lookups_known, which are in no other number
    lookups_known: int  # found, and answered from the lookup cache
    lookups_not_found: int
    registrations_changed: int
    registrations_error: int
    registrations_refused: int
    registrations_unchanged: int
    requests: int
    slow_clients: int
    stale_answers: int

    def report(self) -> dict[str, int]:
        """The counts by metric, for the status line that the supervisor reads."""
        return {
            'lookups_total{result="found"}': self.lookups_found + self.lookups_known,
            'lookups_total{result="not_found"}': self.lookups_not_found,
            'lookups_total{result="error"}': self.lookups_error,
            "stale_answers_total": self.stale_answers,
            'registrations_total{path="unchanged"}': self.registrations_unchanged,
            'registrations_total{path="changed"}': self.registrations_changed,
            'registrations_total{path="refused"}': self.registrations_refused,
            'registrations_total{path="error"}': self.registrations_error,
            "requests_total": self.requests + self.lookups_known,
            "bad_frames_total": self.bad_frames,
            "slow_clients_total": self.slow_clients,
        }
