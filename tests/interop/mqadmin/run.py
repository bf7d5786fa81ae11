"""Runs a story with name servers of both kinds, and tells what differs."""

import contextlib
import difflib
import json
import re
import shlex
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.servers.processes import wait_until

from ..rocketmq import BROKER_NAME, CLUSTER
from .site import MASTER, OTHER, SLAVE, Side, Site
from .story import Case, Story

# What 5.x prints of its logging with the first command, whatever its level.
LOG_SET_UP = re.compile(r" \|-[A-Z]+ in ")
WAIT_S = 40
GET_ROUTE_BY_TOPIC = 105
# 4.8.0 asks for its route after the start of any client, some time during the command.
DEFAULT_TOPIC = "TBW102"

# Stack traces: where the failure was, in a line number of the tool, and not what failed.
FRAME = re.compile(r"^\s+(at |\.\.\. \d+ (more|common))", re.MULTILINE)


@dataclass
class Outcome:
    """One command with the name servers of one kind."""

    output: str
    asked: set[int]
    compared: Any
    shown: bool


@dataclass
class Report:
    differences: list[str] = field(default_factory=list)
    asked: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The request codes that each command sent to name servers."""
    took_s: list[tuple[float, str]] = field(default_factory=list)


def run(story: Story, site: Site, report: Report, tell: Callable[[str], None] = lambda line: None) -> None:
    """Run a story to its end, whatever the outputs are, unless the tables come to differ."""
    kept: dict[str, dict[str, str]] = {side.name: {} for side in site.sides}
    for case in story.cases:
        if site.release.version not in case.releases:
            continue
        start = time.monotonic()
        java, ours = (_run_case(case, side, site, kept[side.name]) for side in site.sides)
        name = case.command.split()[0]
        report.asked[name] |= java.asked
        report.took_s.append((time.monotonic() - start, case.command))
        tell(f"== {case.command}  {sorted(java.asked)}\n{java.output}")
        report.differences += [f"{story.name}: {case.command}\n{text}" for text in _differences(case, java, ours)]
        if case.writes:
            try:
                site.wait_until_agreed()
            except AssertionError as error:
                report.differences.append(f"{story.name}: after {case.command}\n{error}")
                return


def _differences(case: Case, java: Outcome, ours: Outcome) -> list[str]:
    found = []
    for name, outcome in (("Java", java), ("ours", ours)):
        if not outcome.shown:
            found.append(f"with {name} it does not show {case.shows!r}:\n{outcome.output}")
    if java.asked != ours.asked:
        found.append(f"it asked Java {sorted(java.asked)}, ours {sorted(ours.asked)}")
    if java.compared != ours.compared:
        texts = [_text(outcome.compared).splitlines() for outcome in (java, ours)]
        found.append("\n".join(difflib.unified_diff(*texts, "Java", "ours", lineterm="", n=1)))
    return found


def _text(compared: Any) -> str:
    if isinstance(compared, list):
        return "\n".join(compared)
    return json.dumps(compared, indent=1, sort_keys=True) if isinstance(compared, dict) else repr(compared)


def _run_case(case: Case, side: Side, site: Site, kept: dict[str, str]) -> Outcome:
    names = words(side, site) | kept
    arguments = shlex.split(case.command.format_map(names))
    shows = case.shows.format_map(names)
    outputs: list[str] = [""]
    start = time.monotonic()

    def is_shown() -> bool:
        outputs[0] = site.admin.run(arguments[0], side.addr, *arguments[1:])
        file = site.folder / side.word / case.file
        if case.file and file.exists():  # else the command has said why not
            outputs[0] += "\n" + file.read_text()
        return re.search(shows, _same_words(outputs[0], side, site), re.MULTILINE) is not None

    if case.waits:
        with contextlib.suppress(AssertionError):  # the last output is judged like any other
            wait_until(case.command, is_shown, WAIT_S, every_s=0.5)
    else:
        is_shown()
    asked = {
        request.code
        for request in side.requests(start)
        if (request.code, request.ext.get("topic")) != (GET_ROUTE_BY_TOPIC, DEFAULT_TOPIC)
        or DEFAULT_TOPIC in case.command
    }
    if case.keep:
        found = re.search(case.keep, outputs[0], re.MULTILINE)
        assert found, f"{case.command} with {side.name} does not show {case.keep!r}:\n{outputs[0]}"
        kept |= found.groupdict()
    output = _same_words(outputs[0], side, site)
    compared = "\n".join(line for line in output.splitlines() if not FRAME.match(line))
    for pattern in case.hide:
        compared = re.sub(pattern, "*", compared, flags=re.MULTILINE)
    shown = re.search(shows, output, re.MULTILINE) is not None
    return Outcome(output, asked, case.read(compared), shown)


def words(side: Side, site: Site) -> dict[str, str]:
    """The names that a command may have in braces."""
    return {
        "side": side.word,
        "cluster": CLUSTER,
        "broker_name": BROKER_NAME,
        "other_name": OTHER,
        "master": site.brokers[MASTER].addr,
        "slave": site.brokers[SLAVE].addr,
        "other": site.brokers[OTHER].addr,
        "files": str(site.folder),
    }


def _same_words(output: str, side: Side, site: Site) -> str:
    """The output without what must differ: the addresses of its name servers, in any order, and the sides' words."""
    for tap in side.taps:
        output = output.replace(tap.addr, "NAME_SERVER")
    output = "\n".join(line for line in output.splitlines() if not LOG_SET_UP.search(line))
    for each in site.sides:
        output = re.sub(rf"\b{each.word}\b", "SIDE" if each is side else "THAT", output)
    return output
