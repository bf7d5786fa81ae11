"""Several namespaces of one Redis in one console: the first page, the pages of each, and who may know of which."""

from __future__ import annotations

import contextlib
import json
import re

import jsonschema
import pytest

from mqregistry.auth.rights import Right, Role
from mqregistry.auth.users import Effect, Rule
from mqregistry.console.app import PAGES, TWINS, twin_path
from mqregistry.console.login.tries import MOST_TRIES
from mqregistry.console.pages.changes import stream
from mqregistry.store.store import Store
from tests.server.auth_bed import secret_of, user
from tests.store.bed import Bed
from tests.waiting import until

from .conftest import HERE, open_several
from .login.conftest import add_users, form_of, log_in

ORIGIN = {"origin": HERE}


@contextlib.asynccontextmanager
async def namespaces(redis_url, name, count=2):
    """Beds on as many namespaces."""
    async with contextlib.AsyncExitStack() as stack:
        beds = []
        for letter in "abcdefghij"[:count]:
            store = await stack.enter_async_context(Store(redis_url, f"{name}-{letter}"))
            await store.connect()
            beds.append(Bed(store))
        yield beds


@pytest.fixture
def two(runner, redis_url, namespace):
    opened = namespaces(redis_url, namespace)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def several(runner, two, tmp_path):
    """Without a login."""
    opened = open_several([bed.store for bed in two], tmp_path / "checkpoints", actions=True)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def guarded(runner, two, tmp_path):
    """With a login: anna is a user of the first namespace, bert of the second, both is a user of both."""
    first, second = (bed.store for bed in two)
    runner.run(add_users(first, (user("anna", Role.ADMIN), user("both", Role.ADMIN))))
    runner.run(add_users(second, (user("bert", Role.ADMIN), user("both", Role.ADMIN))))
    opened = open_several([first, second], tmp_path / "checkpoints", login=True, actions=True)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


def names(beds):
    return [bed.store.namespace for bed in beds]


async def all_seen(site, beds):
    for bed, console in zip(beds, site.consoles, strict=True):
        seq = (await bed.head()).seq
        await until(lambda state=console.state, seq=seq: state.seq >= seq, "all changes are seen")


async def lines_of(browser):
    answer = await browser.get("/namespaces.json")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["namespaces"]


async def test_the_first_page_lists_all_namespaces_the_worst_first(several, two):
    first, second = names(two)
    await two[1].register(topics=["orders", "payments"])
    await two[1].events()
    await two[1].routes.set_write_perm("broker-a", "wipe")
    await two[0].register(topics=["bills", "orders", "payments"])
    await all_seen(several, two)
    lines = await lines_of(several.http)
    by_name = {line["name"]: line for line in lines}
    assert (by_name[first]["brokers"], by_name[first]["topics"], by_name[second]["topics"]) == (1, 3, 2)
    own = {one: (await several.http.get(f"/ns/{one}/now.json")).json()["data"] for one in (first, second)}
    for line in lines:
        findings = own[line["name"]]["findings"]
        assert line["text"] == findings[0]["text"]  # what its own page says first
        assert line["show"] == f"/ns/{line['name']}{findings[0]['page']}"
        assert line["wrong"] == sum(one["level"] != "note" for one in findings)
    assert by_name[second]["wrong"] > by_name[first]["wrong"]
    assert [line["name"] for line in lines] == [second, first]
    page = await several.get("/")
    assert page.index(f">{second}</a>") < page.index(f">{first}</a>")
    assert f'href="/ns/{first}/"' in page


async def test_each_namespace_has_all_pages_below_its_own_address(several, two):
    for bed in two:
        await bed.register(topics=["all", f"orders-{bed.store.namespace}"])
    first, second = names(two)
    await all_seen(several, two)
    query = {"/topic": f"orders-{second}", "/broker": "broker-a", "/cluster": "c1"}
    left_out = ("/events", "/action", "/report/page", "/dismiss", "/changes/{seq}/undo", "/report")
    for path in PAGES:
        if path in left_out:
            continue
        address = f"/ns/{second}{path.format(seq=1)}"
        page = await several.get(address, **({"name": query[path]} if path in query else {}))
        assert f"orders-{first}" not in page
        if path != "/changes/export":
            assert f'data-namespace="{second}"' in page
            assert 'data-events="/events?lang=en"' in page
            lost = [link for link in ('href="/brokers', 'href="/topics', 'href="/broker?') if link in page]
            assert lost == []
        if path in TWINS:
            answer = await several.http.get(
                f"/ns/{second}{twin_path(path).format(seq=1)}", params={"name": query[path]} if path in query else None
            )
            assert answer.json()["namespace"] == second
    assert json.loads(await several.get(f"/ns/{second}/openapi.json"))["servers"] == [{"url": f"/ns/{second}"}]


async def test_below_a_path_of_a_proxy_every_address_has_it(two, tmp_path):
    await two[0].register(topics=["orders", "bills"])
    name = names(two)[0]
    async with open_several([bed.store for bed in two], tmp_path, root_path="/registry") as site:
        for before in ("/registry", ""):  # whether the proxy cuts it off or not
            page = await site.get(f"{before}/ns/{name}/brokers")
            assert f'href="/registry/ns/{name}/topics"' in page
            assert 'data-events="/registry/events?lang=en"' in page
            assert 'src="/registry/static/console.js' in page
            assert f'href="/registry/ns/{name}/"' in await site.get(f"{before}/")
            assert "share_stream" in await site.get(f"{before}/static/stream.js")


async def test_an_action_changes_its_own_namespace_alone(several, two):
    first, second = names(two)
    for bed in two:
        await bed.kv.put("ns", "key", "old")
    asked = {"do": "put-kv", "kv_namespace": "ns", "key": "key", "value": "new"}
    form = form_of(await several.get(f"/ns/{second}/action", **asked), f"/ns/{second}/action")
    other = await several.http.post(f"/ns/{first}/action", data=form, headers=ORIGIN)
    assert other.status_code == 403  # a form of one namespace is none of the other's
    assert (await several.http.post(f"/ns/{second}/action", data=form, headers=ORIGIN)).status_code == 200
    assert [(await bed.tables()).kv["ns"]["key"] for bed in two] == ["old", "new"]


async def test_a_link_from_before_there_were_several_leads_to_the_first(several, two):
    answer = await several.http.get("/topic", params={"name": "orders"})
    assert (answer.status_code, answer.headers["location"]) == (307, f"/ns/{names(two)[0]}/topic?name=orders")
    assert (await several.http.get("/ns/none/")).status_code == 404
    assert (await several.http.get("/ns/")).status_code == 404


async def test_a_namespace_that_is_gone_is_said_and_the_others_go_on(several, two):
    first, second = names(two)
    keys = [key async for key in two[0].store.client.scan_iter(f"mq:{{{first}}}:*")]
    await two[0].store.client.delete(*keys)
    state = several.consoles[0].state
    await until(lambda: state.stale_since_ms is not None, "the console noticed")
    lines = await lines_of(several.http)
    assert lines[0]["name"] == first
    assert f"no namespace '{first}'" in lines[0]["text"]
    assert await several.get("/healthz") == "ok\n"
    assert "out of date" not in await several.get(f"/ns/{second}/")


async def test_one_search_looks_through_all_namespaces(several, two):
    first, second = names(two)
    for bed in two:
        await bed.register(topics=["orders", "bills", f"orders-{bed.store.namespace}"])
    await two[1].kv.put("ns", "orders-key", "value")
    await all_seen(several, two)
    page = await several.get("/search", q="orders")
    for name, topic in (
        (first, "orders"),
        (second, "orders"),
        (first, f"orders-{first}"),
        (second, f"orders-{second}"),
    ):
        assert f'data-label="Namespace">{name}</td>' in page
        assert f'href="/ns/{name}/topic?name={topic}">{topic}</a>' in page
    data = (await several.http.get("/search.json?q=orders")).json()["data"]
    assert [(one["namespace"], one["name"], one["kind"]) for one in data["found"]] == [
        (first, "orders", "topic"), (second, "orders", "topic"), (second, "orders-key", "KV key"),
        (first, f"orders-{first}", "topic"), (second, f"orders-{second}", "topic"),
    ]  # fmt: skip
    answer = await several.http.get("/search", params={"q": f"orders-{second}"})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/ns/{second}/topic?name=orders-{second}")
    assert "Nothing has this name" in await several.get("/search", q="none-has-it")
    assert "Topics, broker names, addresses" in await several.get("/search")
    assert "<script>" not in await several.get("/search", q="<script>alert(1)</script>")
    chinese = await several.get("/search", q="orders", lang="zh")
    assert '<html lang="zh-CN">' in chinese
    assert 'aria-label="搜索所有命名空间"' in chinese
    assert 'href="/search?q=orders&amp;lang=en"' in chinese


async def test_the_search_of_all_shows_the_likeliest_and_how_many_more(several, two):
    for bed in two:
        await bed.register(topics=[f"orders-{number:02}" for number in range(25)])
    await all_seen(several, two)
    data = (await several.http.get("/search.json?q=orders")).json()["data"]
    assert (len(data["found"]), data["more"]) == (30, 20)
    assert "20 more: write more of the name." in await several.get("/search", q="orders")


async def test_a_form_and_links_lead_to_the_search_of_all(several, two, site):
    page = await several.get("/")
    assert re.search(
        r'<form class="search" role="search" method="get" action="/search"><input id="search" name="q"', page
    )
    for text in ("nothing-has-it", "o"):
        link = f'href="/search?q={text}">Search all namespaces</a>'
        assert link in await several.get(f"/ns/{names(two)[1]}/search", q=text)
        assert "Search all namespaces" not in await site.get("/search", q=text)  # of a console with one


async def test_the_search_of_all_fits_its_description(several, two):
    await two[0].register(topics=["orders", "bills"])
    await all_seen(several, two)
    described = json.loads(await several.get("/openapi.json"))
    assert described["paths"].keys() == {"/namespaces.json", "/search.json"}
    content = described["paths"]["/search.json"]["get"]["responses"]["200"]["content"]["application/json"]
    schema = {**content["schema"], "components": described["components"]}
    jsonschema.Draft202012Validator(schema).validate((await several.http.get("/search.json?q=o")).json())


# rights


def every_address(name):
    paths = [path.format(seq=1) for path in PAGES] + [twin_path(path).format(seq=1) for path in TWINS]
    paths += ["/openapi.json", "/healthz", "/static/console.css", "/login", "/zone", "/no-such-page"]
    return [f"/ns/{name}{path}" for path in paths] + [f"/ns/{name}"]


async def answers(browser, name):
    """What every address of a namespace answers, without its name."""
    found = []
    for address in every_address(name):
        for headers in ({}, {"hx-request": "true"}, {"accept": "application/json"}, {"accept": "text/event-stream"}):
            got = await browser.get(address, headers=headers)
            head = {key: value for key, value in got.headers.items() if key != "content-length"}
            found.append((address, headers, got.status_code, head, got.text))
    for path in ("/action", "/dismiss", "/logout", "/login"):
        got = await browser.post(f"/ns/{name}{path}", data={"do": "wipe", "name": "broker-a"}, headers=ORIGIN)
        found.append((path, got.status_code, got.text))
    return json.dumps(found).replace(name, "NAME")


async def test_a_foreign_namespace_answers_as_one_that_there_is_not(guarded, two):
    first, second = names(two)
    missing = f"{second}x"
    for user_name in (None, "anna"):
        async with guarded.browser() as browser:
            if user_name is not None:
                await log_in(browser, user_name)
                assert (await browser.get(f"/ns/{first}/")).status_code == 200  # it is logged in
            assert await answers(browser, second) == await answers(browser, missing)


async def test_a_user_of_one_namespace_learns_nothing_of_others(guarded, two):
    first, second = names(two)
    for bed in two:
        await bed.register(topics=["all", f"orders-{bed.store.namespace}"])
        await bed.kv.put("ns", f"key-{bed.store.namespace}", "value")
    await all_seen(guarded, two)
    async with guarded.browser() as browser:
        await log_in(browser, "anna")
        assert [line["name"] for line in await lines_of(browser)] == [first]
        shared = ["/", "/namespaces.json", "/openapi.json", "/login", "/healthz", f"/ns/{first}/search?q=orders",
                  f"/ns/{first}/search.json?q=key", f"/ns/{first}/search.json?q=orders", "/search?q=orders",
                  "/search.json?q=orders", "/search.json?q=key", "/search.json?q=b"]  # fmt: skip
        for address in [*shared, *every_address(first)]:
            if not address.endswith("/events"):
                answer = await browser.get(address)
                assert second not in f"{answer.headers} {answer.text}", address


async def test_one_secret_opens_each_namespace_where_it_is_right(guarded, two):
    first, second = names(two)
    async with guarded.browser() as browser:
        await log_in(browser, "both")
        assert {line["name"]: line["user"] for line in await lines_of(browser)} == {first: "both", second: "both"}
        token = form_of((await browser.get("/")).text, "/logout")["token"]
        await browser.post("/logout", data={"token": token}, headers=ORIGIN)
        for address in ("/", f"/ns/{first}/", f"/ns/{second}/"):
            answer = await browser.get(address)
            assert answer.status_code == 303, address
            assert answer.headers["location"].startswith("/login?")


async def test_somebody_may_be_another_user_in_each_namespace(guarded, two):
    async with guarded.browser() as browser:
        await log_in(browser, "anna")
        page = await browser.get("/login", params={"next": f"/ns/{names(two)[1]}/brokers"})
        assert "mqregistry auth secret add --namespace NAMESPACE<" in page.text
        assert f"You are logged in to {names(two)[0]}. What you asked for needs a user of another" in page.text
        assert page.text.count(names(two)[1]) == 2  # in the field that the form sends back, and in the other language
        await log_in(browser, "bert", wanted=f"/ns/{names(two)[1]}/brokers")
        assert sorted(line["user"] for line in await lines_of(browser)) == ["anna", "bert"]


async def test_a_form_that_one_namespace_made_does_nothing_in_another(guarded, two):
    first, second = names(two)
    for bed in two:
        await bed.kv.put("ns", "key", "old")
    asked = {"do": "put-kv", "kv_namespace": "ns", "key": "key", "value": "new"}
    async with guarded.browser() as browser:
        await log_in(browser, "both")
        page = (await browser.get(f"/ns/{first}/action", params=asked)).text
        form = form_of(page, f"/ns/{first}/action")
        refused = await browser.post(f"/ns/{second}/action", data=form, headers=ORIGIN)
        assert refused.status_code == 403, refused.text
    assert [(await bed.tables()).kv["ns"]["key"] for bed in two] == ["old", "old"]


async def test_who_makes_users_of_one_namespace_cannot_guess_secrets_of_another(guarded, two):
    """A user of the same name whose secret is the guess logs in there; here each of these is a wrong try."""
    first, second = names(two)
    await add_users(two[0].store, (user("bert", Role.ADMIN, key="a-guess-of-bert"),))
    for number in range(MOST_TRIES):
        async with guarded.browser() as browser:
            await log_in(browser, "bert", "a-guess-of-bert")
            assert [line["name"] for line in await lines_of(browser)] == [first], number
    async with guarded.browser() as browser:  # from this address the right one is not looked at now, and nobody is told
        assert (await log_in(browser, "bert", secret_of("bert"), 401)).headers.get("retry-after") is None
    async with guarded.browser(peer="10.9.9.9") as browser:
        await log_in(browser, "bert", secret_of("bert"))
        assert [line["name"] for line in await lines_of(browser)] == [second]


async def test_wrong_tries_count_once_for_all_namespaces(guarded):
    for _ in range(MOST_TRIES):
        await log_in(guarded.http, "anna", "wrong", 401)
    await log_in(guarded.http, "bert", "wrong", 429)


async def test_the_list_and_the_stream_show_no_more_than_rights_do(guarded, two):
    await add_users(two[0].store, (user("blind", Role.CLIENT, rules=(Rule(Effect.DENY, (Right.LIST,)),)),))
    await two[0].register(topics=["orders", "bills"])
    await all_seen(guarded, two)
    async with guarded.browser() as browser:
        await log_in(browser, "blind")
        (line,) = await lines_of(browser)
        assert line["text"] == "Your rights do not show its lists."
        assert (line["brokers"], line["topics"], line["wrong"]) == (None, None, 0)
        assert (await browser.get("/events")).status_code == 403
        assert (await browser.get("/search.json?q=orders")).json()["data"]["found"] == []


async def test_the_search_of_all_has_of_each_namespace_what_its_own_has(guarded, two):
    rules = (Rule(Effect.DENY, (Right.KV_READ,)), Rule(Effect.DENY, (Right.CONFIG_READ,)))
    await add_users(two[1].store, (user("near", Role.OPERATOR, rules=rules),))
    await add_users(two[0].store, (user("near", Role.OPERATOR),))
    for bed in two:
        await bed.register(topics=["near-topic", "bills"])
        await bed.kv.put("ns", "near-key", "value")
    await all_seen(guarded, two)
    assert (await guarded.http.get("/search?q=near")).status_code == 303  # to the login
    async with guarded.browser() as browser:
        await log_in(browser, "near")
        found = (await browser.get("/search.json?q=near")).json()["data"]["found"]
        for name, kinds in zip(names(two), ({"topic", "KV key", "user"}, {"topic"}), strict=True):
            of = {(one["kind"], one["path"]) for one in found if one["namespace"] == name}
            own = (await browser.get(f"/ns/{name}/search.json?q=near")).json()["data"]["found"]
            assert of == {(one["kind"], one["path"]) for one in own}
            assert {kind for kind, _ in of} == kinds


async def test_a_session_that_ends_takes_its_namespace_off_the_stream(guarded, two):
    async with guarded.browser() as browser:
        await log_in(browser, "both")
        first, second = (console for console in guarded.consoles)
        request = type("Request", (), {"cookies": dict(browser.cookies), "headers": {}, "scope": {"path": "/events"}})
        body = stream([(one, one.who(request)) for one in (first, second)]).body_iterator
        seen = [await anext(body) for _ in range(3)]
        assert [second.namespace.encode() in one for one in seen] == [False, False, True]
        second.logins.sessions.end(second.who(request).session)
        second.state.wake_listeners()
        assert await anext(body) == f"event: ended\ndata:{second.namespace}\n\n".encode()
        await body.aclose()
