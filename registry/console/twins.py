"""Makes the twins of pages, which are their contents as JSON for programs, and describes the twins as OpenAPI.

The handler of a page lists the members of its twin with their types (:class:`Twin`); the values are those that the
template of the page gets.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from ..events.by import By
from ..events.changes import Change

VERSION: Final = 1
"""Increased when a member is removed or changes its meaning; not for new members."""
JSON: Final = "application/json"


class Twin(NamedTuple):
    """The JSON form of a page of the console."""

    summary: str
    fields: Mapping[str, Any]  # name -> type, of the values that its template gets
    query: tuple[str, ...] = ("at",)  # the query parameters that its address may have


class PageHead(msgspec.Struct, frozen=True, kw_only=True):
    """The members that all twins have."""

    version: int
    namespace: str
    position: str  # the last change that the tables have
    at_ms: int | None = None  # the instant that it shows; None: now
    stale_since_ms: int | None = None  # since when Redis does not answer


class Failure(msgspec.Struct, frozen=True):
    """Why there is no page. ``mend``: the command that gives the missing right, if one is missing."""

    status: int
    title: str
    text: str
    mend: str = ""


class FailurePage(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON that a program gets instead of a twin."""

    version: int = VERSION
    error: Failure


def twin_path(path: str) -> str:
    """The address of a page's twin."""
    return f"{'/now' if path == '/' else path}.json"


def wants_json(request: Request) -> bool:
    """Whether a request asks for the twin: by ``.json``, or by what it accepts."""
    accepted = request.headers.get("accept", "")
    return bool(getattr(request.state, "is_twin", False)) or (JSON in accepted and "text/html" not in accepted)


def page_twin(head: PageHead, twin: Twin, values: Mapping[str, Any]) -> Response:
    """Answer with a page's content as JSON."""
    data = {name: _plain(values.get(name, values.get(f"{name}_"))) for name in twin.fields}
    return Response(msgspec.json.encode({**msgspec.to_builtins(head), "data": data}), media_type=JSON)


def failure_twin(failure: Failure) -> Response:
    """Answer with a failure as JSON."""
    return Response(msgspec.json.encode(FailurePage(error=failure)), failure.status, media_type=JSON)


def _plain(value: Any) -> Any:
    """Turn a value into what JSON has; named tuples and structs become objects with the names of their members."""
    if isinstance(value, By):
        return str(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(getattr(value, name)) for name in _members(type(value))}
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, str_keys=True)
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one) for one in value]
    return value


@functools.cache
def _members(of: Any) -> dict[str, Any]:
    """The members of a NamedTuple that twins have, with their JSON types; other members are for templates alone."""
    hints = get_type_hints(of)
    return {name: _json_type(hints[name]) for name in of._fields if _is_data(hints[name])}


def _is_data(of: Any) -> bool:
    """Whether values of this type are data, and not HTML or a function."""
    return of is not Markup and "Callable" not in str(of)


@functools.cache
def _struct_of(of: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct(f"{of.__module__.rpartition('.')[2].title()}{of.__name__}", _members(of).items())


def _json_type(of: Any) -> Any:
    """The type into which :func:`_plain` turns a value of this type."""
    origin, arguments = get_origin(of), get_args(of)
    if of is By:
        return str
    if of is Change:
        return dict[str, Any]
    if origin in (Union, types.UnionType):
        return Union[tuple(_json_type(one) for one in arguments)]  # noqa: UP007 - of a list of types
    if origin is tuple and arguments[-1] is not ...:
        return tuple[tuple(_json_type(one) for one in arguments)]  # type: ignore[misc]
    if origin in (list, tuple, set, frozenset):
        return list[_json_type(arguments[0])]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[str, _json_type(arguments[1])]  # type: ignore[misc]
    return _struct_of(of) if isinstance(of, type) and hasattr(of, "_fields") else of


def _page_type(name: str, twin: Twin) -> type[msgspec.Struct]:
    data = msgspec.defstruct(f"{name}Data", [(key, _json_type(of)) for key, of in twin.fields.items()])
    return msgspec.defstruct(f"{name}Page", [("data", data)], bases=(PageHead,), kw_only=True)


def openapi(twins: Mapping[str, Twin], release: str, root_path: str) -> dict[str, Any]:
    """OpenAPI's description of twins. ``twins``: address -> twin."""
    of = {path: _page_type(_name(path), twin) for path, twin in twins.items()}
    schemas, components = msgspec.json.schema_components(
        [*of.values(), FailurePage], ref_template="#/components/schemas/{name}"
    )
    *pages, failure = schemas
    paths = {
        path: {"get": {
            "summary": twins[path].summary,
            "parameters": list(_parameters(path, twins[path])),
            "responses": {
                "200": {"description": "The page.", "content": {JSON: {"schema": schema}}},
                "default": {"description": "Why there is no page.", "content": {JSON: {"schema": failure}}},
            },
        }}
        for path, schema in zip(of, pages, strict=True)
    }  # fmt: skip
    return {
        "openapi": "3.1.0", "info": {"title": "mqregistry console", "version": f"{VERSION} ({release})"},
        "servers": [{"url": root_path or "/"}], "paths": paths, "components": {"schemas": components},
    }  # fmt: skip


def _name(path: str) -> str:
    words = re.findall(r"[a-z]+", path.removesuffix(".json"))
    return "".join(word.title() for word in words)


def _parameters(path: str, twin: Twin) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in twin.query:
        yield {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
