"""Reads the mutants in ``patches/``, and applies them to a copy of the checkout.

A mutant is a TOML file. ``what`` says in one sentence what is wrong with it. ``tests`` are the tests that fail then.
``campaign`` is the schedule of ``tests.campaign`` that should find it (none: all kinds of faults), and ``redis`` the
variant that it is played on (none: one server). Each ``[[change]]`` replaces the text ``mended``, which stands exactly
once in ``file``, by ``broken``.

Exact texts and not unified diffs: a diff names lines, which move with each edit above them, and is hard to read in
reverse. The texts stay as short as they can be and still be found once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from tests.campaign.variants import SINGLE

ROOT: Final = Path(__file__).resolve().parent.parent.parent
FOLDER: Final = Path(__file__).resolve().parent / "patches"

ROWS: Final = [
    *(f"A{row:02}" for row in (*range(1, 24), *range(25, 30), 40, *range(50, 55), *range(60, 67), 80)),
    *(f"B{row:02}" for row in range(1, 19)),
    "R01",
    "R02",
    "R03",
    "R04",
]
"""Sequences (A), hostile inputs (B), and who may do what (R)."""

WITHOUT: Final[dict[str, str]] = {
    "B11": "its rights are tried command by command on a real Redis, by tests/deploy/test_redis.py",
}
"""Row -> why it has no mutant."""

SELF_CHECKS: Final = ("self-lua", "self-python")
"""Mutants that every run would notice: one that is missed says that the tests do not run the mutated code."""

_ID: Final = re.compile(r"([ABR]\d\d)[a-z]?|self-\w+")


class DoesNotApply(Exception):
    """The checkout has changed where a mutant changes it; the message says where."""


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One replacement in one file, whose path is relative to the checkout."""

    file: str
    mended: str
    broken: str

    def applied_to(self, text: str) -> str:
        """The text with the defect.

        Raises:
            DoesNotApply: the mended text does not stand in it exactly once.
        """
        count = text.count(self.mended)
        if count != 1:
            raise DoesNotApply(f"{self.file} has this text {count} times instead of once:\n{self.mended}")
        return text.replace(self.mended, self.broken)


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"changes": "change"}):
    """One defect. See the module."""

    what: str
    tests: list[str]
    changes: list[Change]
    campaign: str = ""
    redis: str = SINGLE
    id: str = ""

    @property
    def row(self) -> str:
        """The row of its issue, as in ROWS; "" of a self check."""
        match = _ID.fullmatch(self.id)
        assert match is not None, f"{self.id}.toml: a mutant is named after its row, as A05.toml or A05b.toml"
        return match[1] or ""

    def apply(self, checkout: Path) -> None:
        """Change the files of a checkout, all of them or none.

        Raises:
            DoesNotApply: the checkout is not as the mutant expects it.
        """
        texts: dict[Path, str] = {}
        for change in self.changes:
            path = checkout / change.file
            if not path.is_file():
                raise DoesNotApply(f"there is no file {change.file}")
            texts[path] = change.applied_to(texts[path] if path in texts else path.read_text(encoding="utf-8"))
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")


def read_mutant(path: Path) -> Mutant:
    """One mutant; raises msgspec.DecodeError, with the file's name, when it is none."""
    try:
        mutant = msgspec.toml.decode(path.read_bytes(), type=Mutant)
    except msgspec.DecodeError as error:
        raise msgspec.DecodeError(f"{path.name}: {error}") from error
    return msgspec.structs.replace(mutant, id=path.stem)


def read_mutants() -> list[Mutant]:
    """All mutants, in the order of their rows."""
    return [read_mutant(path) for path in sorted(FOLDER.glob("*.toml"))]
