"""The direction of imports: no layer calls back (see CONTRIBUTING)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# room -> rooms of ours that it may import from (itself always)
ALLOWED = {
    "registry.errors": set(),
    "registry.model": set(),
    "registry.tasks": set(),
    "registry.properties": {"registry.errors"},
    "registry.behaviour": {"registry.errors", "registry.model"},
    "registry.config": {"registry.errors", "registry.model", "registry.properties"},
    "registry.change": {"registry.errors", "registry.model"},
    "registry.journal": {"registry.change"},
    "registry.tables": {"registry.model", "registry.change"},
    "registry.route": {"registry.model", "registry.tables"},
    "registry.registration": {"registry.model", "registry.tables"},
    "registry.embedded": {"registry.errors"},
    "registry.protocol": {"registry.errors", "registry.model"},
    "registry.store": {
        "registry.errors", "registry.model", "registry.behaviour", "registry.change", "registry.tables",
        "registry.journal",
    },
    "registry.server": {
        "registry.errors", "registry.model", "registry.behaviour", "registry.change", "registry.tables",
        "registry.route", "registry.registration", "registry.config", "registry.properties",
        "registry.protocol", "registry.store", "registry.embedded",
        "registry.tasks",
        "registry.client",  # cluster-test mode asks another name server
        "worker",  # a front end sweeps too, unless it is told not to
    },
    "registry.client": {
        "registry.errors", "registry.model", "registry.behaviour", "registry.protocol", "registry.tasks",
        "registry.store", "registry.tables", "registry.registration",  # a broker that writes to Redis itself
    },
    "worker": {"registry.errors", "registry.model", "registry.config", "registry.store"},
    "pipeline": {
        "registry.errors", "registry.model", "registry.behaviour", "registry.change", "registry.journal",
        "registry.tables", "registry.route", "registry.config", "registry.store", "registry.tasks",
    },
    "pipeline.simulate": {
        "registry.errors", "registry.model", "registry.change", "registry.protocol", "registry.store",
        "registry.client", "registry.tasks", "pipeline",
    },
    "registry.cli": None,  # the edge: may use everything; nothing may use it
    "registry.__main__": {"registry.cli"},
    "registry": set(),
}  # fmt: skip
THIRD_PARTY = {
    "redis": {"registry.store", "pipeline"},
    "pyspark": {"pipeline"},
    "pyarrow": {"pipeline"},
    "pandas": {"pipeline"},
    "altair": {"pipeline"},
    "deltalake": {"pipeline"},
    "vl_convert": {"pipeline"},
    "jinja2": {"pipeline"},
    "click": {"registry.cli"},
    "uvloop": {"registry.server", "registry.cli", "worker"},
    "prometheus_client": {"registry.server"},
    "asyncio": {
        "registry.tasks",
        "registry.store",
        "registry.server",
        "registry.client",
        "registry.cli",
        "worker",
        "pipeline",
        "pipeline.simulate",
    },
}


def room(module):
    for name in sorted(ALLOWED, key=len, reverse=True):
        if module == name or module.startswith(name + "."):
            return name
    raise AssertionError(f"{module} is in no room: add it to ALLOWED, with what it may import")


def modules():
    for folder in ("registry", "worker", "pipeline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


def imports(name, path):
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base]).rstrip(".")
            for alias in node.names:
                submodule = ROOT / Path(*base.split(".")) / f"{alias.name}.py"
                yield f"{base}.{alias.name}" if submodule.exists() else base


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else "")
def test_module_imports_only_from_rooms_below(name, path):
    here = room(name)
    for imported in imports(name, path):
        top = imported.split(".")[0]
        if top in ("registry", "worker", "pipeline") and ALLOWED[here] is not None:
            target = room(imported)
            assert target == here or target in ALLOWED[here], f"{name} must not import {imported}"
        if top in THIRD_PARTY:
            assert here in THIRD_PARTY[top], f"{name} must not import {top}"


def test_only_the_script_loader_reads_the_lua_folder():
    for name, path in modules():
        if name != "registry.store.scripts":
            assert ".lua" not in path.read_text().replace("registry/lua", "").replace("lua/", ""), name
