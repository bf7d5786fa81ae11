"""The structure that CONTRIBUTING describes: who may import whom, and how large a room may get."""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

MOST_MODULES = 15
"""In one folder, without its ``__init__``: a folder is a list that one reads."""
MOST_LINES = 400

VALUES = {"", "drain", "errors", "histograms", "model", "names", "networks"}  # "" has the release
TABLES = {*VALUES, "auth", "behaviour", "events", "tables"}

# room -> rooms that it may import from (itself always); the longest name that fits a module is its room
ALLOWED = {
    "": set(),
    "__main__": {"cli"},
    "drain": set(),
    "histograms": set(),
    "errors": set(),
    "model": set(),
    "names": set(),
    "networks": set(),
    "tasks": set(),
    "queued_output": set(),
    "tcp_sockets": set(),
    "embedded": {"errors"},
    "auth": VALUES,
    "request_rights": {*VALUES, "auth", "protocol"},
    "behaviour": VALUES,
    "config": {*VALUES, "behaviour"},
    "events": VALUES,
    "tables": {*VALUES, "events"},
    "protocol": VALUES,
    "store": TABLES,
    "follow": {*TABLES, "store"},
    "operators": {*TABLES, "config", "follow", "store"},
    "client": {*TABLES, "protocol", "store", "tasks"},
    "server": set(),
    "server.counting": {*VALUES, "protocol"},
    "server.auth": {
        *VALUES, "auth", "protocol", "request_rights", "store", "tasks", "server.counting", "server.limits",
    },
    "server.view": {*TABLES, "follow", "protocol", "store", "tasks", "server.auth", "server.counting"},
    "server.limits": {*VALUES, "protocol", "config"},
    "server.requests": {
        *TABLES, "protocol", "store", "config", "client", "server.auth", "server.counting", "server.limits",
        "server.view",
    },
    "server.net": {
        *VALUES, "auth", "protocol", "config", "request_rights", "tasks",
        "server.auth", "server.counting", "server.requests", "server.view",
    },
    "server.process": {
        *TABLES, "store", "config", "tasks", "embedded", "queued_output", "tcp_sockets",
        "server.auth", "server.counting", "server.net", "server.requests", "server.view",
    },
    "compare": {*VALUES, "config", "operators", "protocol"},
    "shadow": {*VALUES, "client", "compare", "protocol", "tasks"},
    "console": {*TABLES, "follow", "protocol", "store", "config", "tasks", "operators", "request_rights"},
    "top": {*TABLES, "follow", "store", "tasks", "operators"},
    "worker": {*VALUES, "config", "store", "tasks"},
    "pipeline": {*TABLES, "config", "store", "tasks"},
    "simulate": {*TABLES, "follow", "protocol", "client", "store", "tasks"},
    "testing": {*VALUES, "client", "config", "embedded", "server.process", "store", "worker"},
    "cli": None,  # the edge: may use everything; nothing may use it
}  # fmt: skip

# folder of a large room -> what of the same room it may import besides itself; "cli": every module directly in cli
INNER = {
    "console.locale": set(),
    "console.login": {"console.state"},
    "console.recent": {"console.findings", "console.links", "console.past", "console.state"},
    "console.pages": {
        "console.context", "console.facts", "console.findings", "console.forms", "console.links", "console.login",
        "console.locale", "console.past", "console.recent", "console.report", "console.state", "console.twins",
        "console.undo",
    },
    "store.auth": {"store.keys", "store.store", "store.streams"},
    "store.connection": {"store.keys", "store.store"},
    "client.broker": {"client.addresses", "client.checks", "client.connection", "client.sync_client"},
    "client.routes": {
        "client.addresses", "client.checks", "client.connection", "client.name_servers", "client.reconnecting",
        "client.sync_client",
    },
    "cli.auth": {"cli", "cli.write"},
    "cli.copies": {"cli", "cli.run", "cli.write"},
    "cli.doctor": {"cli", "cli.run"},
    "cli.help": {"cli"},
    "cli.outside": {"cli", "cli.read"},
    "cli.pipeline": {"cli"},
    "cli.read": {"cli"},
    "cli.run": {"cli", "cli.help", "cli.read", "cli.write"},
    "cli.write": {"cli"},
}  # fmt: skip

PIPELINE_ONLY = {"pipeline"}
THIRD_PARTY = {
    "redis": {"store"},
    "pyspark": PIPELINE_ONLY,
    "pyarrow": PIPELINE_ONLY,
    "pandas": PIPELINE_ONLY,
    "altair": PIPELINE_ONLY,
    "deltalake": PIPELINE_ONLY,
    "duckdb": PIPELINE_ONLY,
    "vl_convert": PIPELINE_ONLY,
    "jinja2": {*PIPELINE_ONLY, "console"},
    "babel": {"console"},
    "starlette": {"console"},
    "uvicorn": {"console"},
    "textual": {"top"},
    "rich": {"top"},
    "click": {"cli"},
    "pytest": {"testing"},
    "fakeredis": {"testing"},
    "uvloop": {"server.process", "cli", "worker"},
    "prometheus_client": {"server.process", "cli"},
    "asyncio": {
        "tasks", "store", "client", "server.auth", "server.counting", "server.view", "server.requests", "server.net",
        "server.process", "worker", "pipeline", "simulate", "shadow", "testing", "console", "top", "cli",
    },
}  # fmt: skip


def room(module):
    """The room of a module named from the package on: ``server.view.follower`` is in ``server.view``."""
    for name in sorted(ALLOWED, key=len, reverse=True):
        if module == name or (name and module.startswith(name + ".")):
            return name
    raise AssertionError(f"{module} is in no room: add it to ALLOWED, with what it may import")


def product_files():
    for folder in ("registry", "worker", "pipeline"):
        yield from sorted(path for path in (ROOT / folder).rglob("*.py"))


def modules():
    """Name within ``mqregistry``, and file, of every module."""
    for path in product_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[1:] if parts[0] == "registry" else parts)
        yield name.removesuffix("__init__").rstrip("."), path


MODULES = dict(modules())


def imports(name, path):
    """What a module imports; ours without the leading ``mqregistry.``, others as they are, with whose they are."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                ours = alias.name == "mqregistry" or alias.name.startswith("mqregistry.")
                yield ours, alias.name.removeprefix("mqregistry").lstrip(".") if ours else alias.name
        elif isinstance(node, ast.ImportFrom):
            base, ours = node.module or "", node.level > 0
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1] if package else []
                base = ".".join(part for part in [*parents, base] if part)
            elif base == "mqregistry" or base.startswith("mqregistry."):
                ours, base = True, base.removeprefix("mqregistry").lstrip(".")
            for alias in node.names:
                submodule = f"{base}.{alias.name}".lstrip(".")
                yield ours, submodule if ours and submodule in MODULES else base


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mqregistry")
def test_module_imports_only_from_the_rooms_that_it_may(name):
    here = room(name)
    for ours, imported in imports(name, MODULES[name]):
        if ours and ALLOWED[here] is not None:
            target = room(imported)
            assert target == here or target in ALLOWED[here], f"{name} must not import {imported}"
        top = imported.split(".")[0]
        assert top not in ("registry", "worker") or ours, f"{name}: the package is mqregistry, not {top}"
        if not ours and top in THIRD_PARTY:
            assert here in THIRD_PARTY[top], f"{name} must not import {top}"


def inner_room(module):
    """``store.connection.url`` is in store.connection, ``cli.output`` in cli, ``store.keys`` is itself."""
    parts = module.split(".")
    folder = ".".join(parts[:2])
    return parts[0] if folder not in INNER and parts[0] == "cli" else folder


@pytest.mark.parametrize("name", [name for name in MODULES if inner_room(name) in INNER])
def test_folder_of_a_large_room_imports_only_what_it_may(name):
    here = inner_room(name)
    for ours, imported in imports(name, MODULES[name]):
        if ours and imported.split(".")[0] == name.split(".")[0] and inner_room(imported) != here:
            assert inner_room(imported) in INNER[here], f"{name} must not import {imported}"


def test_each_folder_of_these_rooms_has_a_rule():
    folders = {".".join(name.split(".")[:2]) for name in MODULES if name.count(".") > 1}
    assert {folder for folder in folders if folder.split(".")[0] in ("console", "store", "client", "cli")} == set(INNER)


def circle(graph):
    """A way from a module over what it imports back to itself; None when there is none."""
    done, way = set(), []

    def visit(name):
        if name in way:
            return [*way[way.index(name) :], name]
        if name not in done:
            way.append(name)
            for target in sorted(graph[name]):
                if found := visit(target):
                    return found
            done.add(way.pop())
        return None

    return next((found for name in sorted(graph) if (found := visit(name))), None)


def test_no_module_imports_itself_over_others():
    graph = {
        name: {target for ours, target in imports(name, path) if ours and target in MODULES and target != name}
        for name, path in MODULES.items()
    }
    assert circle(graph) is None


def too_large(paths):
    """Folders of too many modules, and files of too many lines."""
    folders = defaultdict(list)
    for path in paths:
        if path.name != "__init__.py" and path.suffix == ".py":
            folders[path.parent].append(path)
    large = [f"{folder.relative_to(ROOT)}: {len(modules)} modules" for folder, modules in folders.items()
             if len(modules) > MOST_MODULES]  # fmt: skip
    long = [f"{path.relative_to(ROOT)}: {lines} lines" for path in paths
            if (lines := path.read_text().count("\n")) > MOST_LINES]  # fmt: skip
    return large + long


def test_folders_and_files_are_small():
    assert too_large(list(product_files())) == []


def test_folders_and_files_of_bench_are_small():
    assert too_large([path for path in sorted((ROOT / "bench").rglob("*")) if path.suffix in (".py", ".c", ".h")]) == []


def bench_imports():
    """Each module of bench, and the whole names of what it imports; of ``from a import b`` also a.b."""
    found = {}
    for path in sorted((ROOT / "bench").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        targets = found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: bench imports by whole names"
                targets |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_bench_imports_no_tests():
    found = {name: sorted(target for target in targets if target.split(".")[0] == "tests")
             for name, targets in bench_imports().items()}  # fmt: skip
    assert {name: targets for name, targets in found.items() if targets} == {}


def test_no_module_of_bench_imports_itself_over_others():
    found = bench_imports()
    assert circle({name: {target for target in targets if target in found and target != name}
                   for name, targets in found.items()}) is None  # fmt: skip


def classes(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}


def test_a_class_name_of_bench_means_one_thing():
    owners = defaultdict(set)
    for path in [*product_files(), *(ROOT / "bench").rglob("*.py")]:
        for name in classes(path):
            owners[name].add(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in owners.items()
            if len(paths) > 1 and any(path.startswith("bench/") for path in paths)} == {}  # fmt: skip


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mqregistry")
def test_only_the_store_names_keys_and_sends_commands(name):
    if room(name) != "store":
        for ours, imported in imports(name, MODULES[name]):
            assert not ours or imported not in ("store.keys", "store.connection.asyncio_client"), name
        assert "store.client" not in MODULES[name].read_text(), name


@pytest.mark.parametrize(
    "name", [name for name in MODULES if re.match(r"cli\.(run|read|write|pipeline|auth|outside)\.", name)]
)
def test_a_command_is_in_the_module_of_its_name(name):
    """And every other module of these folders has no command, so that a command is found by its name."""
    pattern = r"^@click\.(?:command|group)\(.*?^(?:async )?def (\w+)"
    commands = set(re.findall(pattern, MODULES[name].read_text(), re.M | re.S))
    assert commands <= {name.split(".")[1] if name.endswith(".group") else name.rpartition(".")[2]}


def texts(path):
    """Every text that a module works with: no docstring and no comment."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def folder_of(module):
    """The folder of the repository that a module of the package is in."""
    top = module.split(".")[0]
    return top if top in ("worker", "pipeline") else "registry"


@pytest.mark.parametrize("name", MODULES, ids=lambda name: name or "mqregistry")
def test_imports_within_a_folder_are_relative_and_across_folders_by_the_installed_name(name):
    """Then a reader, and any tool, can follow an import from the files alone."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "mqregistry":
            target = node.module.removeprefix("mqregistry").lstrip(".")
            assert folder_of(target) != folder_of(name), f"{name}: import {target} relatively"


def test_only_the_script_loader_reads_the_lua_folder():
    assert any(".lua" in text for text in texts(MODULES["store.scripts"]))
    for name, path in MODULES.items():
        if name != "store.scripts":
            assert [text for text in texts(path) if ".lua" in text] == [], name


def test_what_no_test_imports_can_be_imported():
    """Campaigns and measurements that people start by hand."""
    pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for folder in ("bench", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.name.startswith(("test_", "conftest")) and path.name not in ("__main__.py", "later_release.py")
    ]
    lines = ["import importlib, sys", *[f"importlib.import_module({name!r})" for name in names]]
    assert len(names) > 150
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
