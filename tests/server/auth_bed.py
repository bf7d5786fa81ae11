"""Users, signatures and front ends for tests of authentication."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import msgspec
import redis

from mqregistry.auth import changes
from mqregistry.auth.policy import Mode, Policy
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.signature import sign
from mqregistry.auth.users import Effect, Rule, Secret, User
from mqregistry.protocol.command import Command
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore
from mqregistry.store.store import Store

from .harness import Client, FrontEnd


def secret_of(name: str) -> str:
    """The first secret key of a user."""
    return f"secret-of-{name}"


def user(name: str, *roles: Role, rules: tuple[Rule, ...] = (), key: str | None = "", **more: Any) -> User:
    """A user that signs with ``secret_of(name)``; key None: it has no secret."""
    secrets = () if key is None else (Secret(f"id-{name}", key or secret_of(name), 0),)
    return User(name, roles=roles, rules=rules, secrets=secrets, **more)


def broker_user(name: str, broker_name: str, cluster: str = "c1", **more: Any) -> User:
    """A user that speaks for one brokerName."""
    rules = (
        Rule(Effect.ALLOW, (Right.REGISTER,), Kind.CLUSTER, cluster),
        Rule(Effect.ALLOW, (Right.REGISTER,), Kind.BROKER, broker_name),
    )
    return user(name, Role.BROKER, rules=rules, **more)


ADMIN = user("root", Role.ADMIN)


# Keys that change without any change of the tables.
LIFE = {"lease", "leases", "beat", "heartbeats", "lookups", "counted", "meta", "deadlines",
        "processes", "peers"}  # fmt: skip


def without_events(kept: dict[str, Any]) -> dict[str, Any]:
    """The same, whatever the streams of changes have."""
    return {name: None if name.split(":")[0] == "changes" else content for name, content in kept.items()}


class Rules:
    """The policy of a namespace, changed as the command line does."""

    def __init__(self, redis_url: str, namespace: str, compat: str = "5.x") -> None:
        self.redis_url, self.namespace, self.compat = redis_url, namespace, compat

    def _run(self, act: Callable[[Store], Any]) -> Any:
        async def run() -> Any:
            async with Store(self.redis_url, self.namespace, compat=self.compat) as store:
                await store.init_namespace(fresh=True)
                return await act(store)

        return asyncio.run(run())

    def change(self, *steps: Callable[[Policy], Policy]) -> Policy:
        """Change the policy; all steps are one change."""

        def change(policy: Policy) -> Policy:
            for step in steps:
                policy = step(policy)
            return policy

        return self._run(lambda store: PolicyStore(store).change(change))

    def begin(self, mode: Mode | str, *users: User) -> Policy:
        """These users, besides the admin ``root``, and this mode."""
        return self.change(
            *(lambda policy, one=one: changes.add_user(policy, one) for one in (ADMIN, *users)),
            lambda policy: changes.set_mode(policy, Mode(mode)),
        )

    def set_mode(self, mode: Mode | str) -> Policy:
        return self.change(lambda policy: changes.set_mode(policy, Mode(mode)))

    def edit(self, name: str, **fields: Any) -> Policy:
        return self.change(
            lambda policy: changes.edit_user(policy, name, lambda one: msgspec.structs.replace(one, **fields))
        )

    def read(self) -> Policy:
        return self._run(lambda store: PolicyStore(store).read())

    @functools.cached_property
    def redis(self) -> redis.Redis:
        """For looking."""
        return redis.Redis.from_url(self.redis_url)

    def names(self, kind: str) -> set[str]:
        """The members of a set of the tables."""
        return {one.decode() for one in self.redis.smembers(f"mq:{{{self.namespace}}}:{kind}")}

    def kept(self, *, events: bool = True, named: Callable[[str], bool] = bool) -> dict[str, Any]:
        """The tables and whose connections are kept for them, key by key; not what any sign of life changes.

        named: which keys are looked at.
        """
        prefix = f"mq:{{{self.namespace}}}:"
        names = sorted(key.decode().removeprefix(prefix) for key in self.redis.keys(prefix + "*"))
        names = [name for name in names if name.split(":")[0] not in LIFE and named(name)]
        kinds, values = self.redis.pipeline(transaction=False), self.redis.pipeline(transaction=False)
        for name in names:
            kinds.type(prefix + name)
        for name, kind in zip(names, kinds.execute(), strict=True):
            if name.split(":")[0] == "changes":
                values.xlen(prefix + name)
            else:
                {b"hash": values.hgetall, b"set": values.smembers}.get(kind, values.dump)(prefix + name)
        found: dict[str, Any] = dict(zip(names, values.execute(), strict=True))
        for content in found.values():
            if isinstance(content, dict):
                content.pop(b"update_ms", None)
                content.pop(b"period_ms", None)
        return found if events else without_events(found)

    def refused(self) -> list[Any]:
        """The summaries of what was refused."""
        return self._run(lambda store: RefusalStore(store).summary())

    def reported(self) -> list[Any]:
        """The stream of what was refused."""
        return self._run(lambda store: RefusalStore(store).entries())

    def close(self) -> None:
        self.redis.close()


class Caller(Client):
    """A client that signs, or not, and comes from an address of the loopback network."""

    def __init__(
        self, port: int, access_key: str | None = None, secret_key: str | None = None, *, source: str = "127.0.0.1",
        version: int = 479, timeout_s: float = 20.0,
    ) -> None:  # fmt: skip
        super().__init__(port, version=version, timeout_s=timeout_s, host=source)
        self.access_key = access_key
        self.secret_key = secret_key if secret_key is not None else secret_of(access_key or "")

    def signed(self, ext: dict[str, str] | None, body: bytes) -> dict[str, str] | None:
        """The fields with those of the signature."""
        if self.access_key is None:
            return ext
        fields = {**(ext or {}), "AccessKey": self.access_key}
        return fields | {"Signature": sign(self.secret_key, fields, body)}

    def send(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **fields: Any) -> int:
        return super().send(code, self.signed(ext, body), body, **fields)


def in_force(front_end: FrontEnd, policy: Policy) -> None:
    """Wait until a front end decides by this policy or a later one."""
    front_end.wait_until(
        lambda: front_end.poll().get("auth_revision", 0) >= policy.revision, f"revision {policy.revision} is in force"
    )


def refused_with(reply: Command, *words: str) -> None:
    """The reply is a refusal, and its remark has these words."""
    assert reply.code == 16, reply
    for word in words:
        assert word in (reply.remark or ""), reply.remark
