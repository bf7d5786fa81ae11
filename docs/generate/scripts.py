"""The contract of every Lua script: its header."""

from __future__ import annotations

import textwrap

from mqregistry.store.scripts import load

from .markdown import block, plain


def scripts() -> str:
    """A section for each script."""
    return "\n".join(_described(name, script.source) for name, script in sorted(load().items()))


def _described(name: str, source: str) -> str:
    header = source.split("]]")[0].removeprefix(f"--[[ {name}: ")
    summary, _, contract = header.partition("\n")
    return f"## {name}\n\n{plain(summary)}\n\n{block(textwrap.dedent(contract.rstrip()))}"
