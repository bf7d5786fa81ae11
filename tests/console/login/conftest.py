"""A console with a login on the test's own namespace, and users."""

from __future__ import annotations

import contextlib
import html
import re

import pytest

from mqregistry.auth import changes
from mqregistry.auth.rights import Kind, Right, Role
from mqregistry.auth.users import Effect, Rule
from mqregistry.console.login.reach import Reach
from mqregistry.store.auth.policies import PolicyStore
from tests.console.conftest import HERE, open_site
from tests.server.auth_bed import secret_of, user
from tests.waiting import until

NO_PAY = Rule(Effect.DENY, (Right.ROUTE,), Kind.TOPIC, "pay-*")
NO_SECRET_KV = Rule(Effect.DENY, (Right.KV_READ,), Kind.KV, "private")
NO_CONFIG = Rule(Effect.DENY, (Right.CONFIG_READ,))
ONE_BROKER = Rule(Effect.ALLOW, (Right.PERM,), Kind.BROKER, "broker-a")

USERS = (
    user("boss", Role.ADMIN), user("ops", Role.OPERATOR), user("reader", Role.CLIENT),
    user("narrow", Role.CLIENT, rules=(NO_PAY, NO_SECRET_KV, NO_CONFIG, ONE_BROKER)),
    user("blind", Role.CLIENT, rules=(Rule(Effect.DENY, (Right.LIST,)),)),
    user("near", Role.OPERATOR, sources=("10.1.0.0/16",)), user("off", Role.ADMIN, enabled=False),
    user("nameless", Role.ADMIN, key=None),
)  # fmt: skip


class Users:
    """The users of a namespace, changed as the command line does."""

    def __init__(self, store, site):
        self._policies, self._site = PolicyStore(store), site

    async def change(self, change):
        """Change them, and wait until the console knows."""
        after = await self._policies.change(change)
        rules = self._site.console.logins.rules
        await until(lambda: rules.policy.revision >= after.revision, "the console knows the rules")

    async def edit(self, name, edit):
        await self.change(lambda policy: changes.edit_user(policy, name, edit))


async def add_users(store, users=USERS):
    for one in users:
        await PolicyStore(store).change(lambda policy, one=one: changes.add_user(policy, one))


@pytest.fixture
def console(runner, store, bed, tmp_path):
    """One with a login, and with actions."""
    runner.run(add_users(store))
    opened = open_site(store, tmp_path / "checkpoints", reach=Reach(login=True), actions=True)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def users(store, console):
    return Users(store, console)


async def log_in(browser, name, secret=None, status=303, *, origin=HERE, wanted="/", **headers):
    """Fill in the form."""
    form = {"name": name, "secret": secret_of(name) if secret is None else secret, "next": wanted}
    answer = await browser.post("/login", data=form, headers={"origin": origin, **headers})
    assert answer.status_code == status, answer.text
    return answer


@contextlib.asynccontextmanager
async def as_user(site, name, **options):
    """A browser in which somebody is logged in."""
    async with site.browser(**options) as browser:
        await log_in(browser, name, origin=options.get("base") or site.base)
        yield browser


def form_of(text, action="/action"):
    """The hidden fields of a form."""
    form = re.search(rf'<form[^>]*action="{action}".*?</form>', text, re.S)[0]
    return {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
