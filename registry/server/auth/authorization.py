"""Decides whether the rules allow a request: on a read at once, on a write when its turn in the queue comes.

While the mode is off, a worker has no :class:`Authorization`. A decision that raises an error refuses the request.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from ...auth.decide import decide, decide_any
from ...auth.mending import from_here
from ...auth.policy import Mode, Policy
from ...auth.refused import BROKER_ADDR, NEEDS_TLS, NOT_OWNER
from ...auth.rights import READING, WRITING, Kind, Resource, Right
from ...auth.signature import access_key_of
from ...auth.users import User
from ...networks import Address, Networks, parse_address
from ...protocol.codes import RequestCode, with_name
from ...protocol.command import Command
from ...request_rights import FOR_A_BROKER, REQUESTS, Resources, RowClusters, broker_addr_of, needs_of, parsed, rows_of
from ..limits.failures import Failures
from .caller import NOBODY, Caller, How, Signer, Unproven, source_of
from .open_lookups import OpenLookups
from .peer import LastDecision, Peer
from .proofs import LARGE_BYTES, Proofs
from .refusal import Refusal
from .tally import Tally

logger = logging.getLogger(__name__)

_REGISTER: Final = int(RequestCode.REGISTER_BROKER)
_LOOKUP: Final = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class Authorization:
    """The decisions of one policy on the requests of one worker.

    ``enforces``: the mode is enforce, so refused requests are not executed. ``keeps``: the last read is a lookup that a
    cache may answer from now on for all connections of which :meth:`may_ask_open` is true. ``signer``: who signed that
    lookup.

    Args:
        require_tls: whether rights that write need TLS, loopback, or a network that the user is bound to.
        tables: this worker's copy of the tables.
        failures: limits how often an address may send wrong signatures.
    """

    def __init__(
        self, policy: Policy, tally: Tally, *, require_tls: bool, tables: RowClusters, failures: Failures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.policy = policy
        self.enforces = policy.mode is Mode.ENFORCE
        self.keeps = False
        self.signer: Signer | None = None
        self._tally = tally
        self._require_tls = require_tls
        self._tables = tables
        self._proofs = Proofs(policy, failures, clock)
        self._named_networks: dict[str, tuple[User, Networks]] = {}
        self._looks_at_address = {user.name: _looks_at_address(user) for user in policy.users.values()}
        self._anonymous_does = _looks_at_address(policy.anonymous)
        self._open_reads = _open_reads(policy)
        self._open_lookups = OpenLookups(policy)

    def of_read(self, command: Command, sender: Peer, topics: Collection[str] = ()) -> Refusal | None:
        """Why a read is refused; None: it is allowed. ``topics``: the topics of a route watch."""
        self.keeps = False
        try:
            own = self.own_caller(sender)
            if own.user is None and command.code in self._open_reads and access_key_of(command.ext_fields) is None:
                self.keeps, self.signer = self._is_open(command), None
                return self._outcome(None, own)
            caller = self._proofs.signed(command, sender) or own
            rows = tuple(Resource(Kind.TOPIC, topic) for topic in topics) or rows_of(command, self._tables)
            refusal = self._look(command, sender, caller, rows)
            self.keeps = refusal is None and self._is_same_anywhere(command, caller)
            self.signer = None
            if isinstance(caller, Caller) and caller.user is not None:
                sender.last_caller = caller
                if caller.secret_id:
                    self.signer = caller.name, caller.secret_id
            return self._outcome(refusal, caller)
        except Exception as error:  # noqa: BLE001 - logged; refused if rules are in force
            return self._undecided(command, sender, error)

    def of_small_write(self, command: Command, sender: Peer) -> Refusal | None:
        """Why a write is refused before it is queued; None: :meth:`of_write` decides when its turn comes.

        Only :meth:`of_write` checks the signature of a large body.
        """
        if not self.enforces or command.code == _LOOKUP:
            return None
        try:
            signed = access_key_of(command.ext_fields) is not None
            if signed and (len(command.body) >= LARGE_BYTES or self._proofs.known(command, sender) is not None):
                return None
            caller = self._proofs.signed(command, sender) or self.own_caller(sender)
            refusal = self._look_unless_repeated(command, sender, caller, self._rows(command))
            return None if refusal is None else self._outcome(refusal, caller)
        except Exception as error:  # noqa: BLE001 - logged; refused if rules are in force
            return self._undecided(command, sender, error)

    def of_head(self, command: Command, sender: Peer) -> Refusal | None:
        """Why a write is refused although its body has not arrived; None: the decision needs the body."""
        by_header = command.code == _REGISTER or self.own_caller(sender).user is None
        if not by_header or access_key_of(command.ext_fields) is not None:
            return None
        return self.of_small_write(command, sender)

    async def of_write(self, command: Command, sender: Peer) -> Refusal | None:
        """Why a write is refused; None: it is allowed, and ``sender.caller`` says who sent it."""
        sender.caller = NOBODY
        try:
            caller = await self._proofs.of_write(command, sender) or self.own_caller(sender)
            rows = self._rows(command)
            refusal = self._look_unless_repeated(command, sender, caller, rows)
            if isinstance(caller, Caller):
                if refusal is None:
                    caller = caller._replace(decided=rows + _named(command))
                sender.caller = caller
                if caller.user is not None:
                    sender.last_caller = caller
            if refusal is not None:
                sender.caller = sender.caller._replace(refused=True)
            return self._outcome(refusal, caller)
        except Exception as error:  # noqa: BLE001 - logged; refused if rules are in force
            return self._undecided(command, sender, error)

    def of_rows(self, command: Command, sender: Peer, resources: Collection[str]) -> Refusal | None:
        """Why a write may not change these rows, which a script found; None: it may, and ``caller.decided`` has them.

        A row: what the tables hold of one topic, brokerName or cluster.
        """
        caller = sender.caller or NOBODY
        rows = parsed(resources)
        if not caller.refused:
            decision = decide_any(self.policy, caller.user, needs_of(command, rows), source_of(sender))
            if not decision.allowed:
                refusal = self._refused(Refusal.of_decision(decision, caller.how, sender))
                if refusal is not None:
                    return refusal
                caller = caller._replace(refused=True)
        sender.caller = caller._replace(decided=caller.decided + rows)
        return None

    def not_owner(self, command: Command, sender: Peer, owner: str) -> Refusal | None:
        """Why the sender may not change a broker that another user, the owner, registered; None: he may."""
        caller = sender.caller or NOBODY
        if caller.refused:
            return None
        need = needs_of(command)[0]
        missing = f"user {owner} registered this broker, and it is alive"
        return self._refused(Refusal.of_caller(NOT_OWNER, caller, need, sender, missing))

    def binds_topics(self, sender: Peer) -> bool:
        """Whether a rule says which topics the sender of a registration may bring."""
        user = (sender.caller or NOBODY).user
        return user is not None and self.policy.rules_of(user).binds_topics

    def of_content(self, sender: Peer, resources: Sequence[Resource]) -> Refusal | None:
        """Why a registration may not contain these topics, and static topics of these brokerNames; None: it may."""
        caller = sender.caller or NOBODY
        if caller.refused:
            return None
        decision = decide(self.policy, caller.user, Right.REGISTER, resources, source_of(sender))
        if decision.allowed:
            return None
        return self._refused(Refusal.of_decision(decision, caller.how, sender))

    def owner(self, sender: Peer) -> str:
        """The caller of a write and his checked resources, as an argument of scripts (lua/include/owner)."""
        caller = sender.caller or NOBODY
        rules = self.policy.rules_of(caller.user or self.policy.anonymous)
        may_all = rules.everywhere >= WRITING and not rules.deny
        lines = ["*"] if caller.refused or may_all else [str(one) for one in caller.decided]
        # a name with a line feed would look like two names here: leave it out
        decided = "\n".join(["", *(line for line in lines if "\n" not in line), ""])
        return f"{'=' if self.enforces else '~'}{caller.name}{decided}"

    def why_out(self, sender: Peer) -> str:
        """Why to close a connection: its user or certificate is no longer valid; "" = keep it open.

        A removed secret is no reason: requests with that secret are refused anyway, and ``last_caller`` may have an old
        secret for up to a minute after the broker changed to a new one (see ``VERIFIED_FOR_S``).
        """
        for caller in filter(None, (sender.last_caller, sender.own_caller)):
            before = caller.user
            if before is None:
                continue
            now = self.policy.users.get(before.name)
            if now is None or not now.enabled:
                return f"user {before.name} {'is gone' if now is None else 'is disabled'}"
            if caller.how is How.CERTIFICATE and self.policy.by_certificate(sender.certificate.names) is not now:
                return f"the certificate is not that of user {now.name} any more"
        return ""

    def own_caller(self, sender: Peer) -> Caller:
        """The sender of unsigned requests over this connection."""
        caller = sender.own_caller
        if caller is None:
            caller = sender.own_caller = self._proofs.of_connection(sender)
        return caller

    def _rows(self, command: Command) -> Resources:
        return rows_of(command, self._tables) or self._reserved(command)

    def _look_unless_repeated(
        self, command: Command, sender: Peer, caller: Caller | Unproven, rows: Resources
    ) -> Refusal | None:
        if command.code != _REGISTER:
            return self._look(command, sender, caller, rows)
        last, ext_fields = sender.looked, command.ext_fields
        if last and last.by is self and last.caller is caller and last.rows == rows and last.ext_fields == ext_fields:
            return last.refusal
        refusal = self._look(command, sender, caller, rows)
        sender.looked = LastDecision(self, ext_fields, caller, rows, refusal)
        return refusal

    def _look(self, command: Command, sender: Peer, caller: Caller | Unproven, rows: Resources = ()) -> Refusal | None:
        if isinstance(caller, Unproven):
            return Refusal.of_signature(caller, sender)
        needs = needs_of(command, rows)
        if not needs:
            return None
        user, source = caller.user, source_of(sender)
        decision = decide_any(self.policy, user, needs, source)
        if not decision.allowed:
            return Refusal.of_decision(decision, caller.how, sender)
        if user is None or decision.right not in WRITING:
            return None
        if (
            self._require_tls
            and not sender.is_tls
            and not (source is not None and (source.is_loopback or self._networks_of(user).has(source)))
        ):
            missing = "it takes TLS, loopback, or a network that the user is bound to (authRequireTls)"
            return Refusal.of_caller(
                NEEDS_TLS, caller, needs[0], sender, missing, lambda: from_here(user, sender.source)
            )
        addr = broker_addr_of(command)
        if addr and not self._is_at(user, addr, source):
            host = addr.rpartition(":")[0]
            missing = (
                f"the broker address {addr} is neither the connection's nor in a network that the user is bound to"
            )
            return Refusal.of_caller(
                BROKER_ADDR, caller, needs[0], sender, missing, lambda: from_here(user, sender.source, host)
            )
        return None

    def _reserved(self, command: Command) -> Resources:
        """The clusters for which rules reserve the request's brokerName; none if the request names such a cluster."""
        ext = command.ext_fields or {}
        clusters = self.policy.reserved.get(ext.get("brokerName", ""), ()) if command.code in FOR_A_BROKER else ()
        return () if ext.get("clusterName") in clusters else tuple(Resource(Kind.CLUSTER, one) for one in clusters)

    def _is_at(self, user: User, broker_addr: str, source: Address | None) -> bool:
        """Whether a broker address is the sender's own, in a network of the user, or a name in his certificates."""
        host = broker_addr.rpartition(":")[0].strip("[]")
        address = parse_address(host)
        if address is None:
            return f"DNS:{host.lower()}" in user.certificates
        return address == source or self._networks_of(user).has(address)

    def _networks_of(self, user: User) -> Networks:
        of, found = self._named_networks.get(user.name, (None, None))
        if found is None or of is not user:  # a request may still hold a user of the policy before this one
            found = Networks((*user.networks, *user.sources))
            self._named_networks[user.name] = user, found
        return found

    def may_ask_open(self, sender: Peer) -> bool:
        """Whether a cache may answer the unsigned lookups of this connection (see ``keeps``)."""
        return self._open_lookups.may_ask(self.own_caller(sender).user, source_of(sender))

    def _is_open(self, command: Command) -> bool:
        return command.code == _LOOKUP and self._open_lookups.has((command.ext_fields or {}).get("topic"))

    def _is_same_anywhere(self, command: Command, caller: Caller | Unproven) -> bool:
        if isinstance(caller, Unproven):
            return False
        if caller.how is not How.SIGNATURE or caller.user is None:
            return self._is_open(command)
        return not self._anonymous_does and not self._looks_at_address.get(caller.user.name, True)

    def _outcome(self, refusal: Refusal | None, caller: Caller | Unproven) -> Refusal | None:
        if isinstance(caller, Caller) and caller.secret_id:
            self._tally.signed(caller)
        if refusal is None:
            self._tally.allowed()
            return None
        return self._refused(refusal)

    def _refused(self, refusal: Refusal) -> Refusal | None:
        """Count and report a refusal; returns None while the mode is observe: the request is executed."""
        self._tally.refused(refusal, enforced=self.enforces)
        return refusal if self.enforces else None

    def _undecided(self, command: Command, sender: Peer, error: Exception) -> Refusal | None:
        asked = with_name(command.code, RequestCode)
        logger.error("the decision on request %s of %s failed", asked, sender.address, exc_info=error)
        return self._refused(Refusal.undecided(sender, f"{type(error).__name__}, see the log of the name server"))


def _named(command: Command) -> Resources:
    """The cluster and broker that a broker's request names: scripts need a decision on both."""
    ext = command.ext_fields or {}
    cluster, name = ext.get("clusterName"), ext.get("brokerName")
    if command.code not in FOR_A_BROKER or not cluster or not name:
        return ()
    return Resource(Kind.CLUSTER, cluster), Resource(Kind.BROKER, name)


def _open_reads(policy: Policy) -> frozenset[int]:
    """The request codes that the rules allow to unknown senders on every resource."""
    anonymous, rules = policy.anonymous, policy.rules_of(policy.anonymous)
    if not anonymous.enabled or rules.sources is not None:
        return frozenset()
    allowed = READING - rules.deny.keys()
    return frozenset(code for code in REQUESTS if all(need.right in allowed for need in needs_of(Command(code=code))))


def _looks_at_address(user: User) -> bool:
    """Whether any rule of this user depends on where a request comes from."""
    return bool(user.sources) or any(rule.sources for rule in user.rules)
