"""A second checkout of this project, which is measured in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.servers.machine import commit_of


class NoCheckout(Exception):
    """A folder cannot be measured; the text says why."""


@dataclass(frozen=True)
class Checkout:
    """A checkout whose own ``.venv`` has this project installed. name: "ours at <commit>", or its folder's name."""

    folder: Path
    name: str

    @property
    def command(self) -> list[str]:
        """Its ``mqregistry`` command."""
        return [str(self.folder / ".venv" / "bin" / "mqregistry")]

    @property
    def python(self) -> str:
        return str(self.folder / ".venv" / "bin" / "python")


def checkouts(folders: Sequence[Path]) -> list[Checkout]:
    """The checkouts in these folders. If two have the same commit, their names also contain the folder.

    Raises:
        NoCheckout: a folder has no ``.venv`` with this project.
    """
    found: list[Checkout] = []
    for folder in folders:
        commit = commit_of(folder)
        checkout = Checkout(folder.absolute(), f"ours at {folder.absolute().name if commit == '?' else commit}")
        for needed in (checkout.command[0], checkout.python):
            if not Path(needed).exists():
                raise NoCheckout(f"--beside {folder}: there is no {needed}")
        if any(other.name == checkout.name for other in found):
            checkout = Checkout(checkout.folder, f"{checkout.name} ({checkout.folder.name})")
        found.append(checkout)
    return found
