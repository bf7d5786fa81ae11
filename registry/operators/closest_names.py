"""Proposes existing names for one that does not exist: "did you mean"."""

from __future__ import annotations

import difflib


def closest_names(wanted: str, names: set[str]) -> list[str]:
    """The names that are most like ``wanted``, best first; at most five."""
    by_lower = {name.lower(): name for name in sorted(names, reverse=True)}
    wanted = wanted.lower()
    inside = sorted((name for name in names if wanted in name.lower()), key=lambda name: (len(name), name))
    close = [by_lower[name] for name in difflib.get_close_matches(wanted, by_lower, 5, 0.6)]
    return list(dict.fromkeys([*inside[:3], *close]))[:5]
