"""Pictures of the console's pages, of a morning that is made up: ``python -m tests.console.screenshots FOLDER``.

Into docs/console it writes what docs/console.md shows: each page light at 1280 px, and dark at 400 px. ``--all`` writes
each page light and dark at three widths, and whole, to look at; ``--fleet 500`` has so many brokers more. Needs
Chromium, and for the report the extra ``spark``: without that there is none of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from mqregistry.auth import changes
from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Right, Role
from mqregistry.embedded import EmbeddedRedis
from mqregistry.events.by import CLI, SIGNATURE, By
from mqregistry.model import ORDER_TOPIC_CONFIG, QueueData
from mqregistry.store.auth.policies import PolicyStore
from mqregistry.store.auth.refusals import RefusalStore
from mqregistry.store.processes import SweeperFacts, WorkerFacts
from mqregistry.store.store import Store
from mqregistry.store.streams import StreamStore, lookup_entries
from tests.conftest import NO_FSYNC
from tests.server.auth_bed import secret_of, user
from tests.store.bed import Bed, acknowledge

from .chromium import CHROMIUM
from .conftest import Running

NAMESPACE = "default"
MINUTE_MS = 60_000
HEIGHT = 860
COLOURS = 128  # of a picture that is kept

# The Redis of this script has an address that says nothing to anybody.
REDIS = """for (const one of document.querySelectorAll('dd'))
    if (one.textContent.startsWith('unix:')) one.textContent = 'redis://mqconsole@10.0.0.5:6379'"""

PAGES = {
    "login": "/login", "now": "/", "brokers": "/brokers", "past": "/brokers?at=-70m", "broker": "/broker?name=orders-a",
    "cluster": "/cluster?name=shop", "topics": "/topics",
    "topic": "/topic?name=orders", "missing": "/missing", "changes": "/changes", "change": "/changes/last",
    "kv": "/kv", "users": "/users", "front-ends": "/front-ends", "streams": "/streams", "report": "/report",
    "compare": "/compare?at=-70m", "actions": "/actions", "action": "/action?do=wipe&name=orders-a",
    "refused": "/action?do=forget&name=orders-a", "past-now": "/?at=-70m", "past-missing": "/missing?at=-70m",
    "namespaces": "/",  # of a console with several
    "past-changes": "/changes?at=-70m", "past-front-ends": "/front-ends?at=-70m", "past-streams": "/streams?at=-70m",
}  # fmt: skip

BY_ADMIN = {"users"}
# further namespaces of the same Redis, and the brokers that each has
NEIGHBOURS = {"billing": ("ledger-a",), "crm": ("orders-a", "orders-b"), "staging": ("events-a", "orders-b")}

# What is kept in docs: the page as most see it, and the one that has the least room.
KEPT = (("light", 1280), ("dark", 400))

BROKERS = [
    ("10.1.0.11:10911", "orders-a", 0, "shop"), ("10.1.0.12:10911", "orders-a", 1, "shop"),
    ("10.1.0.21:10911", "orders-b", 0, "shop"), ("10.1.0.22:10911", "orders-b", 1, "shop"),
    ("10.2.0.31:10911", "ledger-a", 0, "finance"), ("10.2.0.32:10911", "ledger-a", 1, "finance"),
    ("10.3.0.41:10911", "events-a", 0, "analytics"),
]  # fmt: skip
TOPICS = {
    "shop": ["orders", "orders-retry", "carts", "stock-moves", "shipments", "returns", "prices"],
    "finance": ["payments", "payouts", "invoices", "ledger-entries", "fx-rates"],
    "analytics": ["clicks", "searches", "sessions-closed"],
}


ALICE = By(CLI, "alice", "ops1/4711")
DEPLOY = By(SIGNATURE, "deploy", "10.9.0.5:50122", front_end="ns2:9876")


class Story:
    """A morning of a registry, by the clock of its namespace, which ends now."""

    def __init__(self, store: Store) -> None:
        self.bed, self._store, self._left_ms = Bed(store), store, 0
        self._topics = {cluster: dict.fromkeys(topics, (8, 8, 6)) for cluster, topics in TOPICS.items()}
        self._counters = {name: 1 for _, name, _, _ in BROKERS}

    def by(self, who: By) -> Bed:
        """The same registry, for what somebody else does."""
        return Bed(self._store.on_behalf_of(who))

    async def begin(self, minutes_ago: int) -> None:
        """Turn the clock back."""
        self._left_ms = minutes_ago * MINUTE_MS
        await self.bed.move_clock(-self._left_ms)

    async def at(self, minutes_ago: float) -> None:
        """Go on to so many minutes before now; front ends are there all the time."""
        step_ms = self._left_ms - round(minutes_ago * MINUTE_MS)
        assert step_ms >= 0
        await self.bed.let_pass(step_ms)
        self._left_ms -= step_ms

    async def beat(self, *names: str) -> None:
        """Brokers register, all or those of these names, each as itself."""
        for addr, name, broker_id, cluster in BROKERS:
            if not names or name in names:
                port = 40000 + broker_id * 7 + len(name)
                sender = By(SIGNATURE, name, f"{addr.partition(':')[0]}:{port}", front_end="ns1:9876")
                await self.by(sender).register(
                    addr, name, broker_id, cluster, topics=self._topics[cluster], counter=self._counters[name],
                    timestamp=1795400000000,
                )  # fmt: skip

    async def come(self, fleet: int) -> None:
        """Many brokers more, of several clusters, which register once."""
        for number in range(fleet):
            addr, name = f"10.8.{number // 250}.{number % 250}:10911", f"logistics-{number // 2:03}"
            topics = [f"parcels-{number // 2 % 40}", f"routes-{number // 2 % 90}"]
            await self.bed.register(addr, name, number % 2, f"depot-{number % 10 // 2}", topics=topics)

    async def leave(self, name: str, cluster: str, addr: str) -> None:
        """A broker says goodbye."""
        sender = By(SIGNATURE, name, f"{addr.partition(':')[0]}:40008", front_end="ns1:9876")
        await self.by(sender).routes.unregister_broker(cluster, addr, name)

    async def asked(
        self, front_end: str, incarnation: str, number: int, found: dict[str, int], missing: dict[str, int]
    ) -> None:
        """A worker reports what clients asked for."""
        clients = {name: [f"10.3.0.{len(name)}", f"10.3.1.{len(name) + 40}"] for name in missing}
        counts = lookup_entries(found, missing, clients)
        await StreamStore(self._store).write_lookups(front_end, incarnation, number, 10_000, counts)

    async def first_hours(self) -> None:
        """What was before the console was started."""
        for one in (user("alice", Role.OPERATOR), user("deploy", Role.OPERATOR), user("boss", Role.ADMIN)):
            policies = PolicyStore(self._store.on_behalf_of(ALICE))
            await policies.change(lambda policy, one=one: changes.add_user(policy, one))
        await self.at(199)
        await self.beat()
        alice, deploy = self.by(ALICE), self.by(DEPLOY)
        await self.at(180)
        await alice.kv.set_config({"orderMessageEnable": "true"})
        await alice.kv.put(ORDER_TOPIC_CONFIG, "orders", "orders-a:8;orders-b:8")
        await alice.kv.put("gateway", "blue-green", "blue")
        await self.at(120)
        await deploy.routes.register_topic("coupons", [("orders-a", QueueData(16, 16, 6))])
        await self.at(95)
        await alice.routes.set_write_perm("orders-b", "wipe")
        await self.at(80)
        await self.leave("orders-b", "shop", "10.1.0.21:10911")
        await self.at(70.2)
        await self.beat("orders-a", "ledger-a", "events-a")
        await self.asked("fe1", "w1", 1, {"orders": 3120, "payments": 911}, {"order": 5})
        await self.asked("fe2", "w2", 1, {"orders": 2840}, {"order": 2, "coupon": 11})

    async def last_hour(self) -> None:
        """What the console saw."""
        alice, deploy = self.by(ALICE), self.by(DEPLOY)
        await self.at(58)
        self._counters["orders-b"] = 2
        await self.beat("orders-b")
        await alice.routes.set_write_perm("orders-b", "add")
        await self.at(47)
        await deploy.routes.delete_topic("coupons")
        await deploy.kv.put("gateway", "blue-green", "green")
        await self.at(20)
        await self.leave("events-a", "analytics", "10.3.0.41:10911")
        await self.at(16)
        self._counters["events-a"] = 2
        self._topics["analytics"]["heatmaps"] = (4, 4, 6)
        await self.beat("events-a")
        await self.at(3)
        await deploy.routes.set_write_perm("ledger-a", "wipe")
        await self.at(0)
        await self.beat()
        await self.asked("fe1", "w1", 2, {"orders": 812, "payments": 240}, {"order": 14, "coupons": 96})
        refused = [
            (RefusedKind("deploy", Right.REGISTER, ("cluster:shop", "broker:orders-c"), "no_rule"), 4,
             Last("10.9.0.5", SIGNATURE)),
            (RefusedKind("anonymous", Right.PERM, ("broker:orders-a",), "no_rule"), 2, Last("10.9.0.77", "anonymous")),
        ]  # fmt: skip
        await RefusalStore(self._store).note("fe1", Mode.OBSERVE, refused)
        await acknowledge(StreamStore(self._store), "pipeline", {"changes": (await self.bed.head()).last_id})

    async def stay(self) -> None:
        """Two front ends, and the sweeper of one of them, tell that they are there."""
        head = await self.bed.head()
        started_ms = head.now_ms - 200 * MINUTE_MS
        for number, (front_end, incarnation) in enumerate((("fe1", "w1"), ("fe2", "w2")), 1):
            facts = WorkerFacts(
                front_end=front_end, name=f"ns{number}:9876", host=f"ns{number}", pid=700 + number, release="0.1.0",
                started_ms=started_ms, address=f"10.0.0.{number}:9876", http_address=f"10.0.0.{number}:10876",
                view="fresh", ready=True, seq=head.seq, connections=40 + number, brokers=7 if number == 1 else 0,
                settings={"listenPort": ("9876", "namesrv.properties"), "logLevel": ("WARN", "environment")},
            )  # fmt: skip
            await self.bed.leases.renew(incarnation, 3_600_000, process=msgspec.json.encode(facts))
        sweeper = SweeperFacts(
            host="ns1", pid=701, release="0.1.0", started_ms=started_ms, front_end="ns1:9876", expired=3
        )
        await self.bed.leases.reap(10, sweeper="s1", process=msgspec.json.encode(sweeper))


@contextlib.asynccontextmanager
async def neighbour(url: str, namespace: str) -> AsyncIterator[Story]:
    """Another namespace: in ``crm`` one broker left, in ``staging`` one may not be written to."""
    async with Store(url, namespace) as store:
        await store.connect()
        story = Story(store)
        await story.beat(*NEIGHBOURS[namespace])
        if namespace == "crm":
            await story.bed.register("10.4.0.51:10911", "leads-a", cluster="crm", topics=["leads", "visits"])
            await story.leave("leads-a", "crm", "10.4.0.51:10911")
        if namespace == "staging":
            await story.by(ALICE).routes.set_write_perm("events-a", "wipe")
        yield story


class Registry(threading.Thread):
    """Plays the story, and then keeps everybody alive until it is told to stop."""

    def __init__(self, url: str, fleet: int = 0) -> None:
        super().__init__()
        self._url, self._fleet = url, fleet
        self.began, self.watched, self.done = threading.Event(), threading.Event(), threading.Event()
        self._stopped = threading.Event()

    def run(self) -> None:
        """The thread."""
        asyncio.run(self._play())

    async def _play(self) -> None:
        async with Store(self._url, NAMESPACE) as store, contextlib.AsyncExitStack() as stack:
            await store.connect()
            story = Story(store)
            await story.begin(200)
            await story.first_hours()
            self.began.set()
            await asyncio.to_thread(self.watched.wait)
            await story.last_hour()
            await story.come(self._fleet)
            neighbours = [await stack.enter_async_context(neighbour(self._url, name)) for name in NEIGHBOURS]
            while not self._stopped.is_set():
                await story.stay()
                await story.beat()
                for one, names in zip(neighbours, NEIGHBOURS.values(), strict=True):
                    await one.stay()
                    await one.beat(*names)
                self.done.set()
                await asyncio.to_thread(self._stopped.wait, 1.0)

    def stop(self) -> None:
        """End it."""
        self.watched.set()
        self._stopped.set()
        self.join()


def report_file(folder: Path) -> list[str]:
    """The option that shows a report, where one can be made."""
    if importlib.util.find_spec("altair") is None:
        return []
    from mqregistry.pipeline.report.page import write
    from mqregistry.pipeline.spark.session import open_session
    from tests.pipeline.test_report import a_lake

    spark = open_session(master="local[2]", driver_memory="1g")
    write(a_lake(folder / "lake"), "default", folder / "report.html")
    spark.stop()
    return ["--report", str(folder / "report.html")]


def pictures(everything: bool) -> Iterator[tuple[str, int, bool]]:
    """Scheme, width, and whether the whole page."""
    if everything:
        yield from ((scheme, width, True) for scheme in ("light", "dark") for width in (1280, 400, 2560))
    else:
        yield from ((scheme, width, False) for scheme, width in KEPT)


def open_page(page: Page, name: str) -> bool:
    """Open a page and wait until it is as it should be; False: there is none."""
    path = PAGES[name]
    if name == "change":
        page.goto("/changes?kind=write_perm_set")
        page.locator("#changes .seq").first.click()
    else:
        page.goto(path, wait_until="domcontentloaded")
    if name == "login":
        return True
    if name == "missing":
        page.get_by_text("coupons").wait_for()
    if name != "refused":
        page.locator("#status .ok").wait_for()
    if name == "report":
        if page.locator("iframe").count() == 0:
            return False
        page.frame_locator("iframe").locator("body[data-charts=done]").wait_for()
    return True


def log_in(page: Page, name: str = "alice") -> None:
    page.goto("/login")
    page.locator("#name").fill(name)
    page.locator("#secret").fill(secret_of(name))
    page.locator("#secret").press("Enter")
    page.get_by_role("button", name="Log out").wait_for()


def shrink(file: Path) -> None:
    """Fewer colours: a page of text has few, and the file a third of the size."""
    with Image.open(file) as image:
        image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


def take(url: str, several: str, folder: Path, names: list[str], everything: bool) -> list[Path]:
    """Take the pictures; returns their files. several: the address of a console with several namespaces."""
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme, width, whole in pictures(everything):
            page = browser.new_context(
                base_url=url, color_scheme=scheme, viewport={"width": width, "height": HEIGHT}, timezone_id="UTC"
            ).new_page()
            page.set_default_timeout(60_000)
            if "namespaces" in names:
                page.goto(several)
                page.get_by_role("link", name="crm").wait_for()
                taken.append(shoot(page, folder, "namespaces", scheme, width, whole))
            if "login" in names:
                open_page(page, "login")
                taken.append(shoot(page, folder, "login", scheme, width, whole))
            for who, own in (("alice", set(names) - BY_ADMIN), ("boss", BY_ADMIN & set(names))):
                if own:
                    page.context.clear_cookies()
                    log_in(page, who)
                for name in names:
                    if name not in ("login", "namespaces") and name in own and open_page(page, name):
                        taken.append(shoot(page, folder, name, scheme, width, whole))
        browser.close()
    return taken


def shoot(page: Page, folder: Path, name: str, scheme: str, width: int, whole: bool) -> Path:
    """One picture."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width} px"
    file = folder / f"{name}-{scheme}-{width}.png"
    page.evaluate("document.activeElement?.blur()")
    page.evaluate(REDIS)
    page.screenshot(path=file, full_page=whole, animations="disabled")
    if not whole:
        shrink(file)
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true", help="each page light and dark, at three widths, and whole")
    parser.add_argument("--fleet", type=int, default=0, metavar="N", help="so many brokers more")
    parser.add_argument("--page", choices=PAGES, action="append", help="only these")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="mq") as redis_folder, tempfile.TemporaryDirectory() as name,
        EmbeddedRedis(Path(redis_folder), extra=NO_FSYNC) as server,
    ):  # fmt: skip
        work = Path(name)
        registry = Registry(server.url, asked.fleet)
        registry.start()
        registry.began.wait(60)
        process = Running(server.url, NAMESPACE, work, "--login", "--actions", *report_file(work))
        registry.watched.set()
        registry.done.wait(60)
        also = [word for one in NEIGHBOURS for word in ("--also", one)]
        several = Running(server.url, NAMESPACE, work, *also)
        try:
            for file in take(process.url, several.url, asked.folder, asked.page or list(PAGES), asked.all):
                print(file, file.stat().st_size // 1024, "kB")
        finally:
            registry.stop()
            several.end()
            process.end()
            if "Traceback" in process.err:
                print(process.err)


if __name__ == "__main__":
    main()
