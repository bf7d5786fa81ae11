"""The console in Chinese: who gets it, that each page is whole in it, and that nothing of another language mixes in."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import msgspec
import pytest
from starlette.requests import Request

from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Right
from mqregistry.console.app import PAGES, TWINS, twin_path
from mqregistry.console.locale.chosen import speak
from mqregistry.console.login.reach import Reach
from mqregistry.console.login.viewer import Viewer
from mqregistry.console.pages.changes import stream
from mqregistry.store.auth.refusals import RefusalStore
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.server.auth_bed import secret_of
from tests.store.test_processes import SWEEPER, worker
from tests.waiting import until

from .conftest import HERE, open_site
from .login.conftest import add_users

CHINESE = {"accept-language": "zh-CN,zh;q=0.9,en;q=0.8"}
ORIGIN = {"origin": HERE}
NO_PAGES = {"/events", "/report/page", "/changes/{seq}/undo", "/changes/export"}
QUERIES = {
    "/": ["", "at=-1s"], "/brokers": ["", "lane=day", "state=no-master", "filter=none", "at=-1s", "at=never", "sort=x"],
    "/broker": ["name=broker-a", "name=broker-c", "name=broker-a&at=-1s", "name=none"],
    "/cluster": ["name=c1", "name=c1&at=-1s", "name=none"], "/search": ["q=", "q=o", "q=nothing-has-it", "q=orders2"],
    "/topics": ["", "state=unwritable", "broker=broker-a&cluster=c1", "filter=none", "at=-1s"],
    "/topic": ["name=orders", "name=wanted", "name=none", "name=deleted", "name=orders&at=-1s", "name=none&at=-1s"],
    "/missing": ["", "at=-1s", "filter=none"],
    "/changes": ["", "at=-1s", "since=-1h&until=now", "topic=none", "kind=x"],
    "/changes/{seq}": [""], "/compare": ["", "at=-1s"], "/kv": ["", "at=-1s", "filter=none"],
    "/users": ["", "filter=none"],
    "/front-ends": ["", "at=-1s"], "/streams": ["", "at=-1s"], "/report": [""], "/actions": [""],
    "/action": ["do=wipe&name=broker-a", "do=drain&name=broker-b&reason=disk&for=2h", "do=restore&name=broker-b",
                "do=restore-all&name=broker-b", "do=forget&name=broker-a", "do=delete-topic&topic=orders",
                "do=set-topic&topic=orders&queues=broker-a=8:8:6", "do=put-kv&kv_namespace=ns&key=k&value=w",
                "do=delete-kv&kv_namespace=ns&key=k", "do=wipe&name=none", "do=x", "do=set-topic&topic=t&queues=x",
                f"do=put-kv&kv_namespace={'k' * 300}&key=k&value=w", "do=put-kv&kv_namespace=&key=k&value=w"],
    "/dismiss": ["key=x"],
}  # fmt: skip

# what a page names that is a word elsewhere
KNOWN = {
    "/streams": ("changes", "heartbeats", "lookups"), "/streams?at=-1s": ("changes", "heartbeats", "lookups"),
    "/action?do=x": ["drain", "restore", "restore-all", "forget", "delete-topic", "set-topic", "put-kv", "delete-kv",
                     "allow", "wipe"],
    "/brokers?sort=x": ["cluster", "name", "address", "topics", "left"], "/brokers?at=never": ["never", "T"],
    "/users": ["observe"], "/users?filter=none": ["observe"],
    # the values of settings, which the help of these settings explains
    "/kv": ["observe", "enforce"], "/kv?at=-1s": ["observe", "enforce"], "/kv?filter=none": ["observe", "enforce"],
}  # fmt: skip
# RocketMQ's and Redis's terms, as its Chinese documentation has them, and what the console calls by a name.
TERMS = """Broker broker Topic brokerName Master Slave NameServer namesrvAddr DataVersion Redis KV KiB MiB UTC Id id RW
JSON CSV Java mqregistry Epoch ACL AccessKey anonymous compat broker.conf brokerIP1 PROXY Ctrl-K now R FILE
DIR maxConnections productEnvNamesrvDomain brokerId kv.read config.read route BROKER_NAME READ WRITE PERM mqadmin
deleteTopic HOST PORT MB client operator admin"""
# what the test put there, or a process says of itself
DATA = r"""orders2?|bills|wanted|broker-[abc]|c[12]|ns|none|nothing-has-it|deleted|disk|boss|reader|secret|signature|
|host\w*|t[0-9a-f]{10}|fe[12]|w1|s1|k|v|w|x|
|ops|narrow|near|blind|off|nameless|ns1|perm|k{100}"""
KEPT = re.compile(
    r"'mqregistry [^']+'|(?<=复制 ).*|\S+ \(direct\) on [\w./-]+|nothing-has-it|mqregistry auth allow .*|'-'|"
    r"\w+=\S*|(?<!\w)--?[a-z][\w-]*|\b\d+(?:\.\d+)?(?:ms|[smhd])(?:\d\d[ms])?\b|\b(?:[A-Z]\w*_)+[A-Z]+\b|"
    r"\b[a-z]+_[a-z_]+\b|https?://\S+|redis://\S+|\d\d:\d\d\S*"
)
WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]|[A-Za-z]")
SHOWN = ("title", "aria-label", "placeholder", "data-label", "data-words")
VOID = {"meta", "link", "input", "br", "path", "rect", "use", "line"}
SILENT = {"code", "pre", "kbd", "script", "style"}


class Sentences(HTMLParser):
    """The texts of a page that somebody reads or hears, but not commands, names in a fixed font, and its data."""

    def __init__(self):
        super().__init__()
        self.found, self._open = [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        words = set((given.get("class") or "").split())
        is_data = (
            tag in SILENT or bool(words & {"mono", "help-key", "brand", "by", "kind"}) or given.get("lang") == "en"
        )
        if tag not in VOID:
            self._open.append(is_data)
        if not any(self._open):
            self.found += [value for name, value in attrs if name in SHOWN and value]

    def handle_endtag(self, tag):
        if tag not in VOID and self._open:
            self._open.pop()

    def handle_data(self, data):
        if not any(self._open) and data.strip():
            self.found.append(data)


def english(page, known=()):
    """The words of a page that are neither Chinese nor a term nor a name: each with its text."""
    page = re.sub(r'(<html )lang="[^"]*"', r"\1", page)
    reader = Sentences()
    reader.feed(page)
    allowed = {*TERMS.split(), *known}
    data = re.compile(DATA.replace("\n", ""))
    wrong = []
    for text in reader.found:
        if text.startswith("{"):
            text = " ".join(msgspec.json.decode(text).values()).replace("TIME", "").replace("ZONE", "")
        for word in WORD.findall(KEPT.sub(" ", text)):
            if word not in allowed and not data.fullmatch(word):
                wrong.append((word, " ".join(text.split())))
    return wrong


async def fill(bed):
    """Something for every sentence that a healthy and an unhealthy registry has."""
    store = bed.store
    await add_users(store)
    await bed.fe1.leases.renew("w1", process=worker(), lease_ms=600_000)
    await bed.fe1.leases.reap(10, sweeper="s1", process=SWEEPER)
    await bed.register(topics=["orders", "bills"])
    await bed.register("10.0.0.2:10911", broker_id=1, topics=["orders", "bills"])
    await bed.register("10.0.0.3:10911", "broker-b", cluster="c2", topics={"orders": (4, 4, 4), "bills": (4, 4, 4)})
    await bed.register("10.0.0.4:10911", "broker-c", cluster="c2", topics=["orders", "bills"])
    await bed.fe1.routes.unregister_broker("c2", "10.0.0.4:10911", "broker-c", 0)
    await bed.register("10.0.0.1:10911", "broker-a", topics=["orders", "bills", "deleted"], counter=2)
    await bed.fe1.routes.delete_topic("deleted", "")
    await StreamStore(store).write_lookups("fe2", "w1", 1, 10_000, lookup_entries({"orders": 2}, {"wanted": 3}, {}))
    await bed.kv.put("ns", "k", "v")
    kind = RefusedKind("reader", Right.PERM, ("broker:broker-a",), "no_rule")
    await RefusalStore(store).note("fe1", Mode.ENFORCE, [(kind, 3, Last("10.1.0.9", "signature"))])
    return (await bed.head()).seq


@pytest.fixture
def chinese(acting):
    acting.http.headers.update(CHINESE)
    return acting


async def pages_of(site):
    """Each page with each query that shows something else of it."""
    for path in PAGES:
        if path in NO_PAGES:
            continue
        for query in QUERIES[path]:
            address = path.format(seq=1) + (f"?{query}" if query else "")
            answer = await site.http.get(address, follow_redirects=True)
            assert answer.headers["content-type"].startswith("text/html"), address
            yield address, answer.text


async def test_no_page_has_a_sentence_that_is_not_in_chinese(chinese, bed):
    await chinese.until_seen(await fill(bed))
    await until(lambda: chinese.console.lanes.since_ms is not None, "the lanes are known")
    await chinese.console.missing.read()
    wrong = {}
    async for address, page in pages_of(chinese):
        assert '<html lang="zh-CN">' in page, address
        if found := english(page, KNOWN.get(address, ())):
            wrong[address] = found
    assert wrong == {}, "\n".join(f"{address}: {one}" for address, found in wrong.items() for one in found)


async def test_an_english_page_would_be_noticed(acting, bed):
    await acting.until_seen(await fill(bed))
    async for address, page in pages_of(acting):
        assert '<html lang="en">' in page, address
        assert len(english(page)) > 20, address


async def test_an_address_chooses_and_the_browser_keeps_it(site, bed):
    await site.until_seen(await fill(bed))
    english_page = await site.get("/brokers?sort=name")
    link = html.unescape(re.search(r'<a class="language"[^>]*lang="zh"[^>]*href="([^"]*)"', english_page)[1])
    assert link == "/brokers?sort=name&lang=zh"
    assert "剩余时间" in await site.get(link)
    assert "剩余时间" in await site.get("/brokers")  # by the cookie
    back = html.unescape(re.search(r'<a class="language"[^>]*lang="en"[^>]*href="([^"]*)"', await site.get(link))[1])
    assert back == "/brokers?sort=name&lang=en"
    assert "Time left" in await site.get(back)
    assert "Time left" in await site.get("/brokers")


@pytest.mark.parametrize(("accepted", "language"), [
    ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"), ("zh", "zh-CN"), ("zh-Hans-CN, en;q=0.5", "zh-CN"), ("ZH-cn", "zh-CN"),
    ("en-US,en;q=0.9,zh;q=0.8", "en"), ("en;q=0.2,zh;q=0.7", "zh-CN"), ("de-DE,de;q=0.9", "en"),
    ("de,zh;q=0.1", "zh-CN"),
    ("zh;q=0,en", "en"), ("zh;q=x", "en"), ("*", "en"), ("", "en"), ("," * 5000, "en"), ("..-;q=", "en"),
])  # fmt: skip
async def test_a_browser_asks_for_a_language(site, accepted, language):
    answer = await site.http.get("/", headers={"accept-language": accepted})
    assert f'<html lang="{language}">' in answer.text


@pytest.mark.parametrize("code", ["de", "", "zh.po", "../zh", "en;zh"])
async def test_an_unknown_language_is_english(site, code):
    answer = await site.http.get("/", params={"lang": code}, headers={"cookie": f"language={code.replace(';', '')}"})
    assert '<html lang="en">' in answer.text
    assert "set-cookie" not in answer.headers


async def test_what_a_page_asks_for_by_itself_keeps_its_language(chinese, bed):
    """Another tab of the browser may have another one meanwhile: the cookie is that of the last choice."""
    await chinese.until_seen(await fill(bed))
    page = await chinese.get("/brokers?lang=zh")
    sent = msgspec.json.decode(re.search(r"hx-headers='([^']*)'", page)[1])
    await chinese.get("/brokers?lang=en")
    answer = await chinese.http.get("/brokers", headers={**sent, "hx-request": "true"})
    assert "剩余时间" in answer.text
    assert "Time left" in await chinese.get("/brokers")
    answer = await chinese.http.get("/brokers?lang=zh", headers={**sent, "hx-request": "true"})
    assert "set-cookie" not in answer.headers
    assert answer.headers["cache-control"] == "no-store"


async def test_what_is_kept_of_pages_is_kept_for_each_language(site, bed):
    await site.until_seen(await fill(bed))
    await until(lambda: site.console.lanes.since_ms is not None, "the lanes are known")
    for path in ("/changes", "/brokers"):
        first, chinese, again = [await site.get(path, lang=code) for code in ("en", "zh", "en")]
        assert english(chinese) == []
        assert english(again) == english(first) != []


async def test_a_stream_is_in_the_language_of_its_pages(chinese, bed):
    """Tabs of one language share one: its address names the language."""
    await chinese.until_seen(await fill(bed))
    for code, words in (("zh", "已是最新"), ("en", "up to date")):
        address = html.unescape(re.search(r'data-events="([^"]*)"', await chinese.get("/", lang=code))[1])
        assert address == f"/events?lang={code}"
        chinese.console.state.stop()
        chinese.console.state.stopping = False
        assert words in await first_state(chinese, address)


async def first_state(site, address):
    """The first state of a stream, which then ends."""
    query = address.partition("?")[2].encode()
    request = Request({"type": "http", "path": "/events", "query_string": query, "headers": [], "state": {}})
    speak(request, site.console.namespace)
    async for piece in stream([(site.console, Viewer("t"))]).body_iterator:
        if b"event: state" in piece:
            return msgspec.json.decode(piece.partition(b"data: ")[2])["status"]
    raise AssertionError("no state")


async def test_programs_read_english(chinese, bed):
    await chinese.until_seen(await fill(bed))
    for path in TWINS:
        query = QUERIES[path][-1] if path == "/action" else QUERIES[path][0]
        text = await (await chinese.http.get(f"{twin_path(path).format(seq=1)}?{query}")).aread()
        assert not re.search(r"[\u4e00-\u9fff]", text.decode()), path
    for query in ("as=csv", ""):
        assert not re.search(r"[\u4e00-\u9fff]", await chinese.get(f"/changes/export?{query}"))
    assert not re.search(r"[\u4e00-\u9fff]", await chinese.get("/openapi.json"))


async def test_what_is_done_is_written_down_in_english(chinese, bed, caplog):
    await chinese.until_seen(await fill(bed))
    asked = {"do": "drain", "name": "broker-a", "reason": "换盘"}
    page = await chinese.get("/action", **asked)
    fields = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', page)}
    caplog.set_level("INFO")
    answer = await chinese.http.post("/action", data={**fields, **asked}, headers=ORIGIN)
    assert "已进入维护" in answer.text, answer.text
    assert "broker-a is in maintenance: broker-a: 2 topics wiped" in caplog.text
    link = html.unescape(re.search(r'<a class="language"[^>]*href="([^"]*)"', answer.text)[1])
    assert link == "/?lang=en"  # what a form did has no address
    written = [msgspec.json.encode(one).decode() for one in await bed.events()]
    assert [one for one in written if re.search(r"[\u4e00-\u9fff]", one.replace("换盘", ""))] == []
    await chinese.until_seen((await bed.head()).seq)
    assert "维护中" in await chinese.get("/broker", name="broker-a")


async def test_a_preview_of_a_broker_that_lives_can_be_confirmed(chinese, bed):
    """Its time since the last heartbeat is another one when the form comes back."""
    await chinese.until_seen(await fill(bed))
    page = await chinese.get("/action", do="forget", name="broker-a")
    assert "最近一次心跳在" in page
    fields = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', page)}
    await bed.let_pass(1500)
    answer = await chinese.http.post("/action", data={**fields, "do": "forget", "name": "broker-a"}, headers=ORIGIN)
    assert "已移除" in answer.text, answer.text


@pytest.fixture
def guarded(runner, store, bed, tmp_path):
    """A console with a login, and a browser that asks for Chinese."""
    runner.run(add_users(store))
    opened = open_site(store, tmp_path / "checkpoints", reach=Reach(login=True), actions=True)
    site = runner.run(opened.__aenter__())
    site.http.headers.update(CHINESE)
    yield site
    runner.run(opened.__aexit__(None, None, None))


async def test_the_form_is_in_chinese_with_what_is_wrong(guarded):
    page = await guarded.get("/login")
    assert english(page) == []
    assert '<html lang="zh-CN">' in page
    answer = await guarded.http.post("/login", data={"name": "boss", "secret": "x", "next": "/"}, headers=ORIGIN)
    assert "用户名或密钥不正确" in answer.text
    assert english(answer.text) == []
    assert "Log in" in await guarded.get("/login", lang="en")
    assert "Log in" in await guarded.get("/login")


async def test_a_refusal_says_in_chinese_what_is_missing(guarded, bed):
    await guarded.until_seen(await fill_without_users(bed))
    form = {"name": "reader", "secret": secret_of("reader"), "next": "/"}
    await guarded.http.post("/login", data=form, headers=ORIGIN)
    page = (await guarded.http.get("/users")).text
    assert "没有规则放行" in page
    assert english(page, {"config.write"}) == []


async def fill_without_users(bed):
    await bed.register(topics=["orders", "bills"])
    return (await bed.head()).seq
