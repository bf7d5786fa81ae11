"""Writes the report: facts and plots in one HTML file, with the JavaScript library that draws the plots."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

import jinja2
import vl_convert
from markupsafe import Markup

from ..gold.figures import epochs
from ..lake.lake import Lake, LakeError, whole_files
from . import charts
from .facts import ReportFacts, gather
from .formats import count, length, moment, share
from .headlines import first_line, headlines

DEFAULT_MS: Final = 24 * 3_600_000
_TEMPLATE: Final = files(__package__) / "page.html"


class Plot(NamedTuple):
    """The plots of one section of the page, by element id, and a note about them."""

    specs: dict[str, Any]
    note: str = ""


def write(
    lake: Lake, namespace: str, out: Path, *, from_ms: int | None = None, to_ms: int | None = None
) -> list[ReportFacts]:
    """Write the report that :func:`make` makes; returns its facts.

    Raises:
        LakeError: as :func:`make` raises it; ``out`` is then unchanged.
    """
    found, page = make(lake, namespace, from_ms=from_ms, to_ms=to_ms)
    unfinished = out.with_name(f".{out.name}.unfinished")
    unfinished.write_text(page, encoding="utf-8")
    os.replace(unfinished, out)
    return found


def make(
    lake: Lake, namespace: str, *, from_ms: int | None = None, to_ms: int | None = None
) -> tuple[list[ReportFacts], str]:
    """Make the report on a time: the facts of every epoch that existed then, newest first, and the page.

    Args:
        from_ms, to_ms: None: the last 24 hours before the end of observation.

    Raises:
        LakeError: there are no figures of this namespace, or a file is broken.
    """
    with whole_files(lake):
        found = _gather(lake, namespace, from_ms, to_ms)
        if not found:
            known = sorted(set(lake.read("gold/refresh", columns=["namespace"])["namespace"].to_pylist()))
            holds = f"it has those of {', '.join(known)}" if known else "it has none at all: is it another --lake?"
            raise LakeError(
                f"the lake at {lake.root} has no figures of namespace {namespace!r}; {holds}; 'mqregistry pipeline "
                "run' makes them"
            )
    return found, render(found)


def _gather(lake: Lake, namespace: str, from_ms: int | None, to_ms: int | None) -> list[ReportFacts]:
    """The facts of epochs, newest first; if any has data in this time, epochs without data are left out."""
    newest_first = epochs(lake, namespace)[::-1]
    found: list[ReportFacts] = []
    for epoch in newest_first:
        begin = from_ms
        if begin is None and found:
            begin = found[0].to_ms - DEFAULT_MS  # the default is the newest epoch's last day
        found.append(gather(lake, namespace, epoch, begin, to_ms, DEFAULT_MS))
    return [facts for facts in found if not facts.empty] or found[:1]


def render(found: list[ReportFacts]) -> str:
    """Render the report as one page of HTML."""
    specs: dict[str, Any] = {}
    parts = []
    for number, facts in enumerate(found):
        parts.append(_epoch(facts, number))
        for plot in parts[-1].values():
            if isinstance(plot, Plot):
                specs |= plot.specs
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.globals |= {"share": share, "length": length, "count": count, "moment": moment, "chart": _places}
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        namespace=found[0].namespace,
        epochs=parts,
        charts=Markup(json.dumps(specs, separators=(",", ":")).replace("<", "\\u003C")) if specs else "",
        library=_library() if specs else "",
    )


def _epoch(facts: ReportFacts, number: int) -> dict[str, Any]:
    def plot(name: str, made: Any, note: str = "") -> Plot:
        made = made if isinstance(made, list) else [made] if made else []
        return Plot({f"{name}{number}{'abc'[place]}": spec for place, spec in enumerate(made)}, note)

    span = f"{moment(facts.since_ms)} to {moment(facts.until_ms)} ({length(max(0, facts.until_ms - facts.since_ms))})"
    lost = sorted({(spell.start_ms, spell.end_ms) for spell in facts.spells if spell.state == "unknown"})
    unknown = "".join(
        f" What held from {moment(start)} to {moment(end)} is not known: changes were lost." for start, end in lost
    )
    return {
        "facts": facts,
        "span": f"{span}, namespace {facts.namespace}, epoch {facts.epoch}.{unknown}",
        "old": number > 0,
        "worst": first_line(facts) if not facts.empty else "",
        "heads": headlines(facts) if not facts.empty else [],
        "availability": plot("availability", *charts.availability(facts)),
        "events": plot("events", *charts.events(facts)),
        "heartbeats": plot("heartbeats", *charts.heartbeats(facts)),
        "skew": plot("skew", charts.skew(facts)),
        "missing": plot("missing", charts.missing(facts)),
        "fragile": plot("fragile", charts.fragile(facts)),
    }


def _places(plot: Plot) -> Markup:
    """The empty elements that the plots are drawn into."""
    return Markup("").join(Markup('<div class="chart" id="{}"></div>').format(name) for name in plot.specs)


def _library() -> Markup:
    """The library that draws the plots, escaped so that nothing in it ends the script element."""
    text = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return Markup(re.sub(r"<(?=/script|!--)", r"\\x3C", text, flags=re.IGNORECASE))
