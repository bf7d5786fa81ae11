"""A class name means one thing, docstrings of public things say what they are for, and sentences are read once."""

from __future__ import annotations

import ast
import re
from collections import defaultdict

import pytest

from .test_structure import ROOT, product_files

LEAST_CHARACTERS = 25
FILES = list(product_files())
TEXTS = [
    *FILES,
    *(ROOT / "lua").rglob("*.lua"),
    *(ROOT / "docs").glob("*.md"),
    ROOT / "README.md",
]
# Readers whose first language is not English read sentences with these twice: name the thing or the person instead.
TWICE_READ = re.compile(
    r"\bwhoever\b|\b(is|are) told(?! to\b)|\bso (many|long|much)\b(?! (as|that)\b)|\b(is|are) another\b", re.I
)


def name(path):
    return str(path.relative_to(ROOT))


def homonyms(files):
    """Class names that more than one module defines, with these."""
    owners = defaultdict(list)
    for path, text in files:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                owners[node.name].append(path)
    return {name: paths for name, paths in owners.items() if len(paths) > 1}


def short(text):
    """Docstrings of the module and its public classes, functions and methods that are too short to say anything."""

    def visit(node, public):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                is_public = public and not child.name.startswith("_")
                if is_public and (said := ast.get_docstring(child)) is not None:
                    yield child.name, said
                if isinstance(child, ast.ClassDef):
                    yield from visit(child, is_public)

    tree = ast.parse(text)
    found = [("the module", ast.get_docstring(tree) or ""), *visit(tree, True)] if text.strip() else []
    return [f"{what}: {said}" for what, said in found if len(said) < LEAST_CHARACTERS]


def test_a_class_name_means_one_thing():
    assert homonyms((name(path), path.read_text()) for path in FILES) == {}


@pytest.mark.parametrize("path", FILES, ids=name)
def test_docstrings_of_public_things_say_something(path):
    assert short(path.read_text()) == []


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_sentences_are_read_once(path):
    assert [found[0] for found in TWICE_READ.finditer(path.read_text())] == []


def test_what_is_wrong_would_be_found():
    one = '"""A module that does it all."""\nclass Row:\n    """Too short."""\n    def f(self):\n        "Shorter."\n'
    assert homonyms([("a", one), ("b", one)]) == {"Row": ["a", "b"]}
    assert TWICE_READ.search("Whoever asks is told so many names.")
    assert short(one) == ["Row: Too short.", "f: Shorter."]
