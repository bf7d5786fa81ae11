"""Users, their rules and refused requests as a page; and the action that allows what was refused."""

from __future__ import annotations

import html

import msgspec
import pytest

from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import NEEDS_TLS, Last, RefusedKind
from mqregistry.auth.rights import Kind, Right
from mqregistry.auth.users import Effect, Rule
from mqregistry.console.locale.commands import in_namespace
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore

from .conftest import HERE, as_user, form_of

NO_RULE = RefusedKind("reader", Right.PERM, ("broker:broker-a",), "no_rule")
CASES = {
    "no rule": (NO_RULE, "10.1.0.9", "auth allow reader perm broker:broker-a"),
    "on everything": (RefusedKind("reader", Right.CONFIG_WRITE, (), "no_rule"), "10.1.0.9",
                      "auth allow reader config.write '*'"),
    "a rule denies": (RefusedKind("narrow", Right.ROUTE, ("topic:pay-cards",), "denied"), "10.1.0.9",
                      "auth deny narrow route 'topic:pay-*' --remove"),
    "disabled": (RefusedKind("off", Right.PERM, ("broker:broker-a",), "disabled"), "10.1.0.9", "auth user enable off"),
    "another network": (RefusedKind("near", Right.PERM, ("broker:broker-a",), "user_source"), "10.9.0.9",
                        "auth user set near --from 10.1.0.0/16 --from 10.9.0.9"),
    "in the clear": (RefusedKind("reader", Right.ROUTE, ("topic:orders",), NEEDS_TLS), "10.9.0.9",
                     "auth user set reader --from 10.9.0.9"),
}  # fmt: skip


async def refuse(store, kind=NO_RULE, source="10.1.0.9", times=3):
    await RefusalStore(store).note("fe1", Mode.ENFORCE, [(kind, times, Last(source, "signature"))])


async def rows_of(browser):
    return (await browser.get("/users.json")).json()["data"]


@pytest.mark.parametrize("case", CASES)
async def test_the_button_allows_what_was_refused(console, bed, store, users, case):
    kind, source, words = CASES[case]
    command = in_namespace(f"mqregistry {words}", store.namespace)
    await bed.register()
    await refuse(store, kind, source)
    await bed.events()
    async with as_user(console, "boss") as boss:
        (row,) = (await rows_of(boss))["refused"]
        assert (row["user"], row["times"], row["mode"], row["mend"]) == (kind.user, 3, "enforce", command)
        assert f"do=allow&amp;refused={row['key']}" in (await boss.get("/users")).text
        before = await PolicyStore(store).read()
        preview = await boss.get("/action", params={"do": "allow", "refused": row["key"]})
        assert command in html.unescape(preview.text)
        assert (await PolicyStore(store).read()).revision == before.revision, "a preview changes nothing"
        done = await boss.post("/action", data=form_of(preview.text), headers={"origin": HERE})
        assert "<h1>Done</h1>" in done.text, done.text
        after = await rows_of(boss)
        assert (after["refused"], after["allowed"]) == ([], 1)
        again = await boss.get("/action", params={"do": "allow", "refused": row["key"]})
        assert "is allowed" in again.text
    (event,) = await bed.events()
    assert (event.type, event.by.how, event.by.user) == ("auth_changed", "console", "boss")


async def test_users_and_their_rules_are_there_and_no_secret(console, store):
    async with as_user(console, "boss") as boss:
        page, twin = (await boss.get("/users")).text, await rows_of(boss)
    by_name = {row["name"]: row for row in twin["rows"]}
    assert by_name["narrow"]["rules"] == [
        "deny route topic:pay-*", "deny kv.read kv:private", "deny config.read *", "allow perm broker:broker-a",
    ]  # fmt: skip
    assert (by_name["near"]["sources"], by_name["off"]["enabled"]) == (["10.1.0.0/16"], False)
    assert (by_name["nameless"]["secrets"], by_name["boss"]["secrets"]) == (0, 1)
    assert "deny route topic:pay-*" in page
    assert "secret-of" not in page + msgspec.json.encode(twin).decode()


@pytest.mark.parametrize("name", ["ops", "reader", "narrow"])
async def test_only_who_may_do_everything_sees_rights_and_gives_them(console, bed, store, users, name):
    await bed.register()
    await refuse(store)
    async with as_user(console, "boss") as boss, as_user(console, name) as browser:
        (row,) = (await rows_of(boss))["refused"]
        assert 'href="/users">Users</a>' in (await boss.get("/")).text
        assert 'href="/users">Users</a>' not in (await browser.get("/")).text
        assert (await browser.get("/users")).status_code == 403
        assert (await browser.get("/users.json")).status_code == 403
        asked = {"do": "allow", "refused": row["key"]}
        assert (await browser.get("/action", params=asked)).status_code == 403
        # not even who may write the configuration: it would be a way to every other right
        rule = Rule(Effect.ALLOW, (Right.CONFIG_WRITE,))
        await users.edit(name, lambda one: msgspec.structs.replace(one, rules=(rule, *one.rules)))
        assert (await browser.get("/users")).status_code == 200
        seen = form_of((await boss.get("/action", params=asked)).text)
        token = form_of((await browser.get("/users")).text, "/logout")["token"]
        refused = await browser.post("/action", data={**seen, "token": token}, headers={"origin": HERE})
    assert refused.status_code == 403
    assert "has no right" in refused.text
    assert not [one for one in (await PolicyStore(store).read()).users["reader"].rules if one.kind is Kind.BROKER]


async def test_what_a_rule_cannot_allow_has_no_button(console, store):
    await refuse(store, RefusedKind("anonymous", Right.PERM, ("broker:broker-a",), "no_rule"))
    await refuse(store, RefusedKind.unproved("stranger", "wrong_signature"))
    await refuse(store, RefusedKind("reader", Right.PERM, ("broker:a*",), "no_rule"))
    async with as_user(console, "boss") as boss:
        rows = {row["reason"] + row["user"]: row for row in (await rows_of(boss))["refused"]}
        page = (await boss.get("/users")).text
        gone = await boss.get("/action", params={"do": "allow", "refused": "0" * 32})
    assert {row["key"] for row in rows.values()} == {""}
    assert (
        rows["no_ruleanonymous"]["mend"]
        == f"mqregistry auth user add --namespace {store.namespace} NAME --role operator"
    )
    assert "do=allow" not in page
    assert gone.status_code == 400
    assert "not among the refused ones any more" in gone.text


async def test_the_search_leads_to_a_user(console):
    async with as_user(console, "boss") as boss, as_user(console, "reader") as reader:
        assert (await boss.get("/search", params={"q": "narrow"})).headers["location"] == "/users?filter=narrow"
        assert (await reader.get("/search", params={"q": "narrow"})).headers["location"] == "/changes?author=narrow"
