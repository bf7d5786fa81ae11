"""The decision of the rules on one request: allowed or not, why, and the command that would allow it."""

from __future__ import annotations

import enum
import shlex
from typing import Final, NamedTuple

from ..networks import Address
from .rights import Kind, Resource, Right, Role
from .users import ANONYMOUS, Rule, User


class Reason(enum.StrEnum):
    """Why a request is allowed or refused; also a label in metrics."""

    GRANTED = "granted"
    DENIED = "denied"
    NO_RULE = "no_rule"
    RULE_SOURCE = "rule_source"  # a rule allows it, but only from other addresses
    USER_SOURCE = "user_source"
    DISABLED = "disabled"


MISSING: Final = {
    Reason.GRANTED: "it is allowed",
    Reason.DENIED: "a rule denies it",
    Reason.NO_RULE: "no rule allows it",
    Reason.RULE_SOURCE: "no rule allows it from this address",
    Reason.USER_SOURCE: "the user may do nothing from this address",
    Reason.DISABLED: "the user is disabled",
}
"""Why a request is allowed or refused, in words."""


class Decision(NamedTuple):
    """The decision of the rules on one request."""

    allowed: bool
    reason: Reason
    right: Right
    user: User | None = None  # None: anonymous
    refused: tuple[Resource, ...] = ()  # the refused resources; empty: everything
    rule: Rule | None = None  # the rule that denies it
    source: Address | None = None

    @property
    def user_name(self) -> str:
        """The name of the request's user."""
        return ANONYMOUS if self.user is None else self.user.name

    @property
    def resource(self) -> str:
        """The refused resources as a text; ``*``: everything."""
        return " ".join(map(str, self.refused)) or "*"

    @property
    def text(self) -> str:
        """The refusal for the peer: user, right, resource, address and reason.

        It may contain unprintable characters, because names come from the peer.
        """
        who = "nobody known (anonymous)" if self.user is None else f"user {self.user.name}"
        address = self.source or "an unknown address"
        return f"{who} has no right {self.right} on {self.resource} from {address}: {MISSING[self.reason]}"

    @property
    def mend(self) -> str:
        """The command that would allow it; "" if there is none.

        Names of resources come from the peer, and an operator copies the command into a shell, so each name is quoted.
        For a name with a ``*`` (a pattern in the command) or a leading ``-`` (an option) there is no command.
        """
        if self.allowed or any("*" in one.name or one.name.startswith("-") for one in self.refused):
            return ""
        return "mqregistry auth " + self._mend()

    def _mend(self) -> str:
        name = shlex.quote(self.user_name)
        if self.rule is not None:
            rights = ",".join(self.rule.rights)
            return f"deny {name} {rights} {shlex.quote(self.rule.resource)}{_from(self.rule.sources)} --remove"
        if self.user is None:
            return self._mend_for_anonymous()
        if self.reason is Reason.DISABLED:
            return f"user enable {name}"
        here = (str(self.source or "ADDRESS"),)
        if self.reason is Reason.USER_SOURCE:
            return f"user set {name}{_from((*self.user.sources, *here))}"
        words = " ".join(shlex.quote(str(resource)) for resource in self.refused) or "'*'"
        return f"allow {name} {self.right} {words}{_from(here) if self.reason is Reason.RULE_SOURCE else ''}"

    def _mend_for_anonymous(self) -> str:
        """The command that makes a user with this right.

        A broker's user is identified by the broker's address, because many brokers do not sign.
        """
        names = {resource.kind: shlex.quote(resource.name) for resource in self.refused}
        if self.right is Right.REGISTER:
            broker, cluster = names.get(Kind.BROKER, "BROKER_NAME"), names.get(Kind.CLUSTER)
            on = (f" --cluster {cluster}" if cluster else "") + f" --broker {broker}"
            return f"user add {broker} --role {Role.BROKER}{on} --network {self.source or 'ADDRESS'}"
        role = Role.ADMIN if self.right is Right.CONFIG_WRITE else Role.OPERATOR
        return f"user add NAME --role {role}"


def _from(networks: tuple[str, ...]) -> str:
    return "".join(f" --from {network}" for network in networks)
