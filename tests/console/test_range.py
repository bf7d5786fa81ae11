"""A range of time: chosen by fields or in a chart, its changes on a page and as a file."""

from __future__ import annotations

import csv
import io
import json
import re

from mqregistry.operators.export import csv_line

from .chromium import HOSTILE


async def three(site, bed):
    """Three changes, a minute apart; their times."""
    for name in ("a", "b", "c"):
        await bed.kv.put("ns", name, "v")
        await bed.let_pass(60_000)
    await site.until_seen((await bed.head()).seq)
    return [one.ms for one in await bed.events()]


def keys_of(page):
    return re.findall(r'class="what">ns/(\w) = v', page)


async def test_the_page_shows_the_changes_of_a_range(site, bed):
    first, second, third = await three(site, bed)
    assert keys_of(await site.get("/changes", since=str(second))) == ["c", "b"]
    assert keys_of(await site.get("/changes", until=str(second))) == ["b", "a"]
    page = await site.get("/changes", since=str(first + 1), until=str(third - 1))
    assert keys_of(page) == ["b"]
    assert f'href="/compare?at={first + 1}&amp;and={third - 1}"' in page
    assert 'hx-get="/changes' not in page, "what is over does not refresh"
    text = re.search(r'name="since" type="text" value="([^"]+)"', page)[1]
    assert keys_of(await site.get("/changes", since=text)) == ["c", "b"], "as the field shows it"
    assert "is before since" in await site.get("/changes", 400, since=str(third), until=str(first))
    assert "expected" in await site.get("/changes", 400, since="soon")
    twin = (await site.http.get(f"/changes.json?since={second}&until={second}")).json()
    assert [one["key"] for one in twin["data"]["changes"]] == ["b"]


async def test_a_range_as_a_file(site, bed):
    _, second, third = await three(site, bed)
    text = await site.get("/changes/export", since=str(second), until=str(third), **{"as": "csv"})
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["seq"], row["type"], row["what"]) for row in rows] == [
        ("3", "kv_put", "ns/c = v"), ("2", "kv_put", "ns/b = v"),
    ]  # fmt: skip
    assert json.loads(rows[0]["event"])["key"] == "c"
    answer = await site.http.get(f"/changes/export?until={second}&kind=kv_put")
    assert answer.headers["content-disposition"] == 'attachment; filename="changes.jsonl"'
    assert [json.loads(line)["key"] for line in answer.text.splitlines()] == ["b", "a"]
    for number in range(250):
        await bed.kv.put("ns", f"k{number}", "v")
    await site.until_seen((await bed.head()).seq)
    assert (await site.get("/changes/export")).count("\n") == 253, "all of it, not one page"


async def test_a_name_is_no_formula_and_no_line_of_its_own(bed):
    for name in ("=cmd|' /C calc'!A0", "+1", "@x", "-1", HOSTILE, 'a"b\r\n9,9'):
        await bed.kv.put(name, "k", "v")
        (row,) = csv.reader(io.StringIO(csv_line((await bed.events())[-1])))
        assert len(row) == 10
        assert row[3][0] not in "=+-@"
