"""The public names of a package for Python programs: signature and docstring of each, and of its methods."""

from __future__ import annotations

import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from .markdown import block, plain

_ITEM = re.compile(r" *(\*{0,2}\w+(?:, \*{0,2}\w+)*): (.+)")
_HEADING = re.compile(r"(?:Args|Attributes|Raises|Returns|Yields):")
_SAYS_NOTHING = ("Alias for field number", "Called by the event loop")


def client() -> str:
    """Every public name of ``mqregistry.client``."""
    return _names("mqregistry.client")


def testing() -> str:
    """Every public name of ``mqregistry.testing``."""
    return _names("mqregistry.testing")


def _names(package: str) -> str:
    module = importlib.import_module(package)
    return "\n".join(_described(name, getattr(module, name)) for name in module.__all__)


def _described(name: str, thing: Any) -> str:
    parts = [f"### {name}\n", block(_signature(name, thing), "python"), _text(thing)]
    if inspect.isclass(thing):
        for member, found in _members(thing):
            parts += [f"#### {name}.{member}\n", block(_signature(member, found), "python"), _text(found)]
    return "\n".join(part for part in parts if part)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods and properties that the class, or one of ours that it is made of, gives users."""
    seen = set()
    for base in kind.__mro__:
        for name, found in vars(base).items() if base.__module__.startswith("mqregistry.") else ():
            said = inspect.getdoc(found) or ""
            shown = callable(found) or isinstance(found, property | staticmethod | classmethod)
            if name not in seen and shown and not name.startswith("_") and said and not said.startswith(_SAYS_NOTHING):
                yield name, found
            seen.add(name)


def _signature(name: str, thing: Any) -> str:
    if isinstance(thing, property):
        return f"{name}: {_annotation(inspect.signature(thing.fget).return_annotation if thing.fget else '')}"
    function = getattr(thing, "__func__", thing)
    kind = "class " if inspect.isclass(thing) else "async " if inspect.iscoroutinefunction(function) else ""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return kind + name
    # each as Python writes it, but for quotes around annotations, and for enumerations
    parameters = [str(one) for one in map(_plain, signature.parameters.values()) if one.name not in ("self", "cls")]
    named = [one.kind is one.KEYWORD_ONLY for one in signature.parameters.values() if one.name not in ("self", "cls")]
    if True in named and not any(text.startswith("*") for text in parameters):
        parameters.insert(named.index(True), "*")
    empty = signature.return_annotation is signature.empty or inspect.isclass(thing)
    returns = "" if empty else f" -> {_annotation(signature.return_annotation)}"
    line = f"{kind}{name}({', '.join(parameters)}){returns}"
    if len(line) <= 100:
        return line
    return "".join((f"{kind}{name}(\n", *(f"    {one},\n" for one in parameters), f"){returns}"))


class _Raw:
    """Shows as this text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _plain(one: inspect.Parameter) -> inspect.Parameter:
    if one.annotation is not one.empty:
        one = one.replace(annotation=_Raw(_annotation(one.annotation)))
    if isinstance(one.default, enum.Enum):
        one = one.replace(default=_Raw(f"{type(one.default).__name__}.{one.default.name}"))
    elif inspect.isfunction(one.default):
        one = one.replace(default=_Raw("..."))
    return one


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _text(thing: Any) -> str:
    """A docstring as Markdown: ``name: text`` is an item of a list, and lines that stand deeper belong to it."""
    made: list[str] = []
    item: int | None = None  # the indentation of the item that is open
    for line in (inspect.getdoc(thing) or "").splitlines():
        text, indent = _inline(line.strip()), len(line) - len(line.lstrip())
        found = _ITEM.fullmatch(line)
        if found:
            made += [""] * (item is None) + [f"- `{found[1]}`: {_inline(found[2])}"]
            item = indent
        elif item is not None and text and indent > item:
            made.append(f"  {text}")
        else:
            made += [""] * (item is not None) + (["", f"{text}", ""] if _HEADING.fullmatch(text) else [text])
            item = None
    return re.sub(r"\n{3,}", "\n\n", "\n".join(made)).strip() + "\n"


def _inline(text: str) -> str:
    """Roles and double backquotes of a docstring as code spans; every other character as it is."""
    pieces = re.split(r"(:\w+:`~?[^`]*`|``[^`]*``)", text)
    return "".join(
        f"`{re.sub(r'^:?[a-z]*:?`*~?|`*$', '', piece)}`" if number % 2 else plain(piece)
        for number, piece in enumerate(pieces)
    )
