"""What a package index shows of this project: its addresses, and the README with links that lead there from anywhere.

The address is written once, in pyproject.toml (``[tool.hatch.metadata.hooks.custom]``). In the repository the README's
links stay relative, so that they work in a clone and in the site of ``make docs``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PICTURES = (".svg", ".png")


def absolute(text: str, address: str) -> str:
    """A page of the repository's root with the links to its files below an address; others stay as they are."""

    def link(found: re.Match[str]) -> str:
        path = found[1]
        kind = "raw" if path.partition("#")[0].endswith(PICTURES) else "blob"
        return f"]({address}/{kind}/HEAD/{path})"

    return re.sub(r"\]\((?!#|[a-z]+:)([^)\s]+)\)", link, text)


class Metadata(MetadataHookInterface):
    """Hatchling's hook: the fields ``readme`` and ``urls``."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling: write the fields."""
        address = str(self.config["address"]).rstrip("/")
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(readme, address)}
        metadata["urls"] = {
            "Homepage": address,
            "Documentation": f"{address}/blob/HEAD/docs/index.md",
            "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
            "Source": address,
        }
