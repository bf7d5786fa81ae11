"""The loader of the Lua scripts, and that the scripts keep to their form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqregistry.errors import StoreError
from mqregistry.store import scripts
from mqregistry.store.scripts import Script, expand, load

LUA = Path(__file__).resolve().parents[2] / "lua"
NAMES = sorted(path.stem for path in LUA.glob("*.lua"))
INCLUDES = sorted(path.stem for path in (LUA / "include").glob("*.lua"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "include").mkdir()
    monkeypatch.setattr(scripts, "_find_folder", lambda: tmp_path)
    load.cache_clear()
    yield tmp_path
    load.cache_clear()


def write(folder, name, text):
    (folder / f"{name}.lua").write_text(text)


def test_arguments_are_counted_from_the_header(folder):
    write(folder, "none", "--[[ none: x\n  KEYS[1] meta ]]\nreturn 1\n")
    write(folder, "two", "--[[ two: x\n  ARGV[1] a\n  ARGV[2] b ]]\nreturn 1\n")
    write(folder, "more", "--[[ more: x\n  ARGV[1] a\n  ARGV[2...] rest ]]\nreturn 1\n")
    found = load()
    assert [(s.name, s.arguments, s.more) for s in found.values()] == [
        ("more", 1, True), ("none", 0, False), ("two", 2, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    ["return 1\n", "--[[ other: x ]]\nreturn 1\n", "-- wrong: x\nreturn 1\n", " --[[ wrong: x ]]\nreturn 1\n"],
)
def test_header_that_does_not_name_its_script_is_refused(folder, text):
    write(folder, "wrong", text)
    with pytest.raises(StoreError, match=r"wrong\.lua: the header must open with '--\[\[ wrong: '"):
        load()


@pytest.mark.parametrize("numbers", [(2,), (1, 3), (2, 1), (1, 1)])
def test_header_whose_arguments_are_not_numbered_is_refused(folder, numbers):
    lines = "".join(f"  ARGV[{n}] x\n" for n in numbers)
    write(folder, "wrong", f"--[[ wrong: x\n{lines}]]\nreturn 1\n")
    with pytest.raises(StoreError, match=r"wrong\.lua: ARGV lines of the header are not numbered"):
        load()


def test_include_is_put_in_once_where_it_is_first_asked_for(folder):
    write(folder, "include/a", '--- @include "include/b"\nA\n')
    write(folder, "include/b", '--- @include "include/a"\nB\n')
    write(
        folder, "s", '--[[ s: x ]]\n--- @include "include/a"\n--- @include "include/b"\n--- @include "include/a"\nS\n'
    )
    assert expand(folder / "s.lua", folder) == "--[[ s: x ]]\nB\nA\nS\n"


def test_include_that_is_missing_is_an_error(folder):
    write(folder, "s", '--[[ s: x ]]\n--- @include "include/none"\n')
    with pytest.raises(FileNotFoundError, match="none"):
        load()


@pytest.mark.parametrize(("more", "given", "fine"), [
    (False, 1, False), (False, 2, True), (False, 3, False), (True, 1, False), (True, 2, True), (True, 9, True),
])  # fmt: skip
def test_number_of_arguments_is_checked(more, given, fine):
    script = Script("s", "", "", 2, more)
    if fine:
        script.check(["x"] * given)
    else:
        with pytest.raises(StoreError, match=rf"lua/s\.lua takes (at least )?2 arguments, called with {given}"):
            script.check(["x"] * given)


async def test_call_with_a_wrong_number_of_arguments_never_reaches_redis(store):
    with pytest.raises(StoreError, match=r"lua/delete_kv\.lua takes 2 arguments, called with 1"):
        await store.call("delete_kv", "only one")


@pytest.mark.parametrize("name", NAMES)
def test_header_states_the_contract(name):
    header = (LUA / f"{name}.lua").read_text().split("]]\n")[0]
    for word in ("KEYS[1]", "RETURNS", "EVENTS", "REPEAT", "COST"):
        assert word in header, f"{name}: no {word}"


@pytest.mark.parametrize("name", NAMES)
def test_every_argument_of_the_header_is_used_and_no_other(name):
    script = load()[name]
    body = script.source.split("]]\n", 1)[1]
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", body)}
    assert max(used, default=0) <= script.arguments + script.more
    if not script.more:
        assert used == set(range(1, script.arguments + 1))


def code(path):
    return re.sub(r"--\[\[.*?\]\]|--[^\n]*", "", path.read_text(), flags=re.S)


def given_by(include):
    """The names that an include gives to what stands behind it: those of its header that it makes."""
    path = LUA / "include" / f"{include}.lua"
    made = set(re.findall(r"^local function (\w+)", code(path), re.M))
    for names in re.findall(r"^local ([\w, ]+?) *(?:=|$)", code(path), re.M):
        made |= {name.strip() for name in names.split(",")}
    return made & set(re.findall(r"\w+", path.read_text().split("]]\n")[0].split("GIVES")[1]))


def path_of(name):
    return LUA / "include" / f"{name}.lua" if name in INCLUDES else LUA / f"{name}.lua"


def included_by(name):
    return re.findall(r'^--- @include "include/(\w+)"', path_of(name).read_text(), re.M)


@pytest.mark.parametrize("name", INCLUDES)
def test_include_states_what_it_gives(name):
    header = path_of(name).read_text().split("]]\n")[0]
    assert header.startswith(f"--[[ {name}: ")
    assert "GIVES" in header
    assert given_by(name), f"{name}: nothing of what GIVES names is made in it"


@pytest.mark.parametrize("name", [*NAMES, *INCLUDES])
def test_who_includes_something_uses_it_himself(name):
    for include in included_by(name):
        assert given_by(include) & set(re.findall(r"\w+", code(path_of(name)))), f"{name}: nothing of {include} is used"


@pytest.mark.parametrize("name", [*NAMES, *INCLUDES])
def test_what_is_called_is_included_or_made_there(name):
    """A call of what an include gives, in a file that does not include it, works only where another has done so."""
    text = code(path_of(name))
    called, made = set(re.findall(r"(?<![.:\w])(\w+)\(", text)), set(re.findall(r"function (\w+)", text))
    for include in {*INCLUDES} - {"open", name, *included_by(name)}:
        functions = set(re.findall(r"^local function (\w+)", code(path_of(include)), re.M)) & given_by(include)
        assert not functions & (called - made), f"{name}: {include} is not included"


def test_every_script_begins_with_open_and_no_include_asks_for_it():
    for name in NAMES:
        assert name == "init_namespace" or included_by(name)[0] == "open", name
    assert not any("open" in included_by(name) for name in INCLUDES)


def test_every_include_is_included():
    assert {include for name in (*NAMES, *INCLUDES) for include in included_by(name)} == set(INCLUDES)


@pytest.mark.parametrize("name", NAMES)
def test_script_sets_no_global(name):
    """Redis refuses a script that sets one, but only when it gets there."""
    source = load()[name].source
    body = re.sub(r"--\[\[.*?\]\]|--[^\n]*|'[^'\n]*'|\"[^\"\n]*\"", "", source, flags=re.S)
    while "{" in body:
        body = re.sub(r"\{[^{}]*\}", "TABLE", body)
    local = set(re.findall(r"\blocal function (\w+)", body))
    for names in re.findall(r"\blocal ([\w, ]+?)(?: =|\n)", body):
        local |= {part.strip() for part in names.split(",")}
    assigned = set(re.findall(r"^\s*(\w+) = ", body, flags=re.M))
    parameters = {p.strip() for group in re.findall(r"function\s*\w*\(([\w, ]*)\)", body) for p in group.split(",")}
    assert assigned <= local | parameters
