"""docs/redis.md names every key that the scripts use, and its recipes work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "redis.md").read_text(encoding="utf-8")


def keys_in_lua():
    """Every key, or the beginning of one, that a script builds."""
    found = set()
    for script in (ROOT / "lua").rglob("*.lua"):
        found |= set(re.findall(r'\b([PA] \.\. "[a-z:_-]+)"', script.read_text(encoding="utf-8")))
    return {key.replace(' .. "', ":") for key in found}


def test_every_key_of_the_scripts_is_described():
    keys = keys_in_lua()
    assert len(keys) > 20
    described = {name.split("<")[0] for name in re.findall(r"\| `([PA]:[^`]+)` \|", PAGE)}
    assert keys - described == set()
    assert described - keys == set(), "no script uses these"


def test_every_field_of_meta_is_described():
    fields = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE, re.M))))
    wanted = set()
    for script in (ROOT / "lua").rglob("*.lua"):
        for arguments in re.findall(r'"(?:HM?GET|HM?SET|HSETNX|HINCRBY)", KEYS\[1\], ([^\n=]*)', script.read_text()):
            wanted |= set(re.findall(r'"([a-z_]+)"', arguments)) - {"%s"}
    assert {"epoch", "seq", "up_since"} <= wanted
    assert wanted - fields == set()


async def test_recipes_work(bed):
    topics = {"topic1": (4, 4, 6), "topic2": (4, 4, 6)}
    await bed.register("127.0.0.1:10911", topics=topics, filter_servers=["f:1"])
    await bed.register("127.0.0.1:10921", name="broker-b", topics=topics)
    await bed.kv.put("ORDER_TOPIC_CONFIG", "topic1", "broker-a:4")
    await bed.kv.set_config({"orderMessageEnable": "true"})
    await bed.leases.renew("w", process=b"{}")
    recipes = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.S) for line in block.splitlines()]
    assert len(recipes) > 12
    for recipe in recipes:
        program, command, *words = shlex.split(recipe, comments=True)
        assert (program, command) == ("mqregistry", "redis-cli")
        reply = await bed.redis(*(word.replace("{default}", "{" + bed.store.namespace + "}") for word in words))
        assert reply not in (None, [], {}, set(), -2), recipe
