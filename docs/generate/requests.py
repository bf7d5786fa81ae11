"""Every request code and response code: what it means, and of a request its header and the right that it needs."""

from __future__ import annotations

import ast
import inspect
from enum import IntEnum

import msgspec

from mqregistry.behaviour import behaviour_of
from mqregistry.protocol import headers
from mqregistry.protocol.codes import RequestCode, ResponseCode
from mqregistry.protocol.command import Command
from mqregistry.request_rights import REQUESTS

from .markdown import code, plain, table


def requests() -> str:
    """A row for each request code."""
    meanings, absent = _meanings(RequestCode), behaviour_of("4.8").absent_codes
    rows = []
    for request in RequestCode:
        asks = REQUESTS[request].needs(Command(code=request), ()) if request in REQUESTS else ()
        right = asks[0].right.value if asks else ""
        what = meanings[request.name] + (" Not in 4.8.0." if request in absent else "")
        fields = ", ".join(map(code, _fields(request)))
        rows.append((f"{request:d}", code(request.name), plain(what), fields, code(right) if right else ""))
    return table(("code", "name", "what it does", "fields of the header", "right"), rows)


def responses() -> str:
    """A row for each response code."""
    meanings = _meanings(ResponseCode)
    rows = [(f"{response:d}", code(response.name), plain(meanings[response.name])) for response in ResponseCode]
    return table(("code", "name", "meaning"), rows)


def _meanings(kind: type[IntEnum]) -> dict[str, str]:
    """Name of a member -> the text that stands below it."""
    (declared,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared, ast.ClassDef)
    meanings = {}
    for member, text in zip(declared.body, declared.body[1:], strict=False):
        match member, text:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(value=ast.Constant(value=str(meaning))):
                meanings[name] = meaning
    return meanings


def _fields(request: RequestCode) -> list[str]:
    """The fields of a request's header: those of the class whose docstring names it."""
    for header in headers.Header.__subclasses__():
        if request.name in (header.__doc__ or "").split(":")[0]:
            return [field.encode_name for field in msgspec.structs.fields(header)]
    return []
