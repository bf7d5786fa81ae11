"""Every page, light and dark, wide and narrow, through axe-core: nothing serious stands between it and any reader."""

from __future__ import annotations

import pytest

from mqregistry.auth.policy import Mode
from mqregistry.auth.refused import Last, RefusedKind
from mqregistry.auth.rights import Right
from mqregistry.store.auth.refusals import RefusalStore
from tests.server.auth_bed import secret_of

from .chromium import needs_chromium
from .conftest import Running
from .login.conftest import add_users

pytestmark = needs_chromium

PATHS = ["/", "/brokers", "/brokers?lane=day", "/cluster?name=c1",
         "/topics", "/topics?state=unwritable", "/topic?name=orders", "/missing",
         "/changes", "/changes/1", "/kv", "/users", "/front-ends", "/streams", "/report", "/compare?at=-1s", "/compare",
         "/actions", "/action?do=wipe&name=broker-a", "/action?do=forget&name=broker-a", "/brokers?at=never",
         "/no-such-page", "/?lang=zh", "/brokers?lang=en"]  # fmt: skip
# of an instant: each colour and each width once, the other two are the same pages
THEN = ["/", "/brokers", "/cluster?name=c1", "/topics", "/topic?name=orders", "/topic?name=none", "/missing",
        "/changes", "/kv", "/front-ends", "/streams"]  # fmt: skip


@pytest.fixture(scope="module")
def site(filled, loop, redis_url, tmp_path_factory):
    loop(add_users(filled.store))
    loop(filled.kv.put("ns", "key", "value"))
    kind = RefusedKind("reader", Right.PERM, ("broker:broker-a",), "no_rule")
    loop(RefusalStore(filled.store).note("fe1", Mode.ENFORCE, [(kind, 3, Last("10.1.0.9", "signature"))]))
    process = Running(redis_url, filled.store.namespace, tmp_path_factory.mktemp("axe"), "--login", "--actions")
    yield process
    process.end()


def findings(page):
    """What axe-core finds that is serious or critical: rule, where, and what it says."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="no axe-playwright-python: pip install -e '.[dev]'"
    ).Axe()
    found = axe.run(page, options={"resultTypes": ["violations"]}).response
    assert len(found["passes"]) > 10  # it looked
    return [
        (one["id"], one["impact"], node["target"], node.get("failureSummary", ""))
        for one in found["violations"] if one["impact"] in ("serious", "critical") for node in one["nodes"]
    ]  # fmt: skip


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_finding(chromium, site, scheme, width):
    context = chromium.new_context(base_url=site.url, color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    wrong = {}

    def look(name):
        if found := findings(page):
            wrong[name] = found

    page.goto("/")
    look("login")
    page.locator("#name").fill("boss")
    page.locator("#secret").fill("wrong")
    page.locator("#secret").press("Enter")
    page.get_by_role("alert").wait_for()
    look("login, refused")
    page.locator("#name").fill("boss")
    page.locator("#secret").fill(secret_of("boss"))
    page.locator("#secret").press("Enter")
    page.get_by_role("button", name="Log out").wait_for()
    assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")
    then = [f"{path}{'&' if '?' in path else '?'}at=-1s" for path in THEN]
    for path in PATHS + then * ((scheme, width) in (("light", 1280), ("dark", 400))):
        page.goto(path, wait_until="domcontentloaded")
        look(path)
    page.goto("/action?do=put-kv&kv_namespace=axe&key=k&value=" + f"{scheme}{width}")
    page.locator("#do-it").click()
    page.get_by_role("heading", name="Done").wait_for()
    look("done")
    context.close()
    assert wrong == {}, "\n".join(f"{path}: {one}" for path, found in wrong.items() for one in found)


def test_a_serious_finding_would_be_noticed(chromium):
    page = chromium.new_page()
    page.set_content('<!doctype html><html lang="en"><title>x</title><main><h1>x</h1><p style="color:#ccc;background:'
                     '#fff">faint</p><input><a href="#">a</a><button>b</button></main>')  # fmt: skip
    assert {one[0] for one in findings(page)} >= {"color-contrast", "label"}
    page.close()
