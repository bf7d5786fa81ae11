"""Describes a setting, and parses and shows its value."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

PREFIX: Final = "MQREGISTRY_"
"""The prefix of every environment variable of this project."""


class RunTime(NamedTuple):
    """Whether request 318 (UPDATE_NAMESRV_CONFIG) may change a setting, and why. Every client may send 318."""

    allowed: bool
    why: str


class About(NamedTuple):
    """An entry of the table of settings, without type and default: property key, help, scope, limits."""

    key: str
    help: str
    run_time: RunTime | None = None  # for a shared setting: whether 318 may change it without configAllowList
    least: int | None = None  # the smallest number
    most: int | None = None
    choices: tuple[str, ...] = ()  # the only texts that are allowed
    flag: str = ""  # the flag, and a name in the environment, if these differ from the attribute
    metavar: str = ""  # the word for the value in help; empty: the choices, or the last word of the attribute
    zero_is_default: bool = False  # 0 means our default, as it means Netty's default in Java
    form: tuple[str, str] = ("", "a text")  # for a text: its regular expression, and a description
    check: Callable[[str], object] | None = None  # raises ValueError for a text that fits the expression but is wrong
    secret: bool = False  # the value is never shown

    @property
    def shared(self) -> bool:
        """Whether the value may come from the shared configuration, which all front ends use."""
        return self.run_time is not None


Kind = Literal["bool", "int", "int?", "str"]
"""``int?``: an int or None; an empty text means None."""


class Option(NamedTuple):
    """One setting: its attribute, kind, default and entry in the table, and how its value is read and shown."""

    name: str
    kind: Kind
    default: Any
    about: About

    @property
    def run_time(self) -> RunTime:
        """Whether 318 may change the setting without configAllowList, and why."""
        return self.about.run_time or RunTime(False, "it belongs to one process")

    @property
    def key(self) -> str:
        """The setting's name in properties files, and in requests 318 and 319."""
        return self.about.key

    @property
    def flag(self) -> str:
        """The setting's name on the command line."""
        return "--" + (self.about.flag or self.name).replace("_", "-")

    @property
    def variables(self) -> tuple[str, ...]:
        """The setting's names in the environment; the first name that is set is used."""
        names = dict.fromkeys((self.about.flag, self.name, _snake(self.key)))
        return tuple(PREFIX + name.upper() for name in names if name)

    @property
    def allowed(self) -> str:
        """A description of the values that are allowed, for messages and help."""
        about = self.about
        if self.kind == "bool":
            return "true or false"
        if about.choices:
            return "one of " + ", ".join(about.choices)
        if self.kind == "str":
            return about.form[1]
        if about.least is not None and about.most is not None:
            return f"a whole number from {about.least} to {about.most}"
        return "a whole number" if about.least is None else f"a whole number from {about.least} on"

    def parse(self, text: str) -> Any:
        """A value from its text.

        Raises:
            ValueError: the text is not an allowed value.
        """
        about, text = self.about, text.strip()
        if self.kind == "str":
            if (about.choices and text not in about.choices) or (
                about.form[0] and re.fullmatch(about.form[0], text) is None
            ):
                raise ValueError(text)
            if about.check is not None:
                about.check(text)
            return text
        if self.kind == "bool":
            if text.lower() not in ("true", "false"):
                raise ValueError(text)
            return text.lower() == "true"
        if self.kind == "int?" and not text:
            return None
        if not text.lstrip("-").isdecimal() or not text.isascii():
            raise ValueError(text)
        number = int(text)
        if number == 0 and about.zero_is_default:
            return self.default
        if not (about.least or 0) <= number <= (2**31 - 1 if about.most is None else about.most):
            raise ValueError(text)
        return number

    def show(self, value: Any) -> str:
        """The text that ``parse`` reads as this value; ``***`` for a secret."""
        if self.about.secret:
            return "***" if value else ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)


def _snake(key: str) -> str:
    return "".join("_" + char.lower() if char.isupper() else char for char in key)
