"""Who is at the other end of a connection: its address, its certificate, and whom it was last proved to be."""

from __future__ import annotations

from ..auth.authorization import LastDecision
from ..auth.caller import NO_CERTIFICATE, Caller
from ..auth.proofs import Verified
from .sent import Sent


class Remote(Sent):
    """The client's side of a connection, as rules and limits see it."""

    __slots__ = (
        "address", "caller", "certificate", "host", "is_tls", "last_caller", "looked", "own_caller", "source",
        "verified", "via",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.address = self.host = "?"
        """The client's address for the log; and without its port what limits depend on: a PROXY header that is not
        believed changes only the first."""
        self.source = self.via = ""
        self.is_tls, self.certificate = False, NO_CERTIFICATE
        self.caller: Caller | None = None
        self.own_caller: Caller | None = None
        self.last_caller: Caller | None = None
        self.verified: Verified | None = None
        self.looked: LastDecision | None = None

    def named_by_proxy(self, address: str, *, counts: bool) -> None:
        """A PROXY header names the client; counts: also for rules, else its address counts as not known."""
        self.via, self.address, self.source = self.address, address, ""
        if counts:
            self.host = self.source = address.rpartition(":")[0]
