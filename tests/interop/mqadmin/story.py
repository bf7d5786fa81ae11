"""What is run: stories of mqadmin commands, one after the other, with name servers of each kind."""

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..wire import parse_json
from .site import ordered

ALL = ("4.8.0", "5.3.3", "5.5.0")
BEFORE_5 = ALL[:1]
SINCE_5 = ALL[1:]
SINCE_5_5 = ALL[2:]

Reader = Callable[[str], Any]


def lines(output: str) -> list[str]:
    """As it stands, but for the order of the lines, which follows Java's hash order."""
    return sorted(line.rstrip() for line in output.splitlines() if line.strip())


def json_text(output: str) -> Any:
    """The JSON object in the output, whose lists are sets; without one, the lines."""
    found = re.search(r"^\{.*\}$", output, re.DOTALL | re.MULTILINE)
    return ordered(parse_json(found[0])) if found else lines(output)


def allocation(output: str) -> Any:
    """allocateMQ: who gets how many of which queues is arithmetic on hash order; their number and their sum are not."""
    found = re.search(r"^\{.*\}", output, re.MULTILINE)
    if found is None:
        return lines(output)
    result = json.loads(found[0])["result"]
    queues = Counter(json.dumps(queue, sort_keys=True) for mine in result.values() for queue in mine)
    return {client: len(mine) for client, mine in result.items()}, queues


@dataclass(frozen=True)
class Case:
    """One command; it is run with the Java name servers, then with ours."""

    command: str
    """As typed, without -n. {side} is a word of four letters that differs; see `run.words` for the other names."""
    shows: str
    """A regular expression that both outputs must match: it proves that the command did what it is for."""
    read: Reader = lines
    """What of the output is compared."""
    hide: tuple[str, ...] = ()
    """Regular expressions of what may differ: measurements, and what the test says why."""
    keep: str = ""
    """A regular expression; its named groups are names for later cases of the story."""
    file: str = ""
    """A file that it writes below {files}/{side}, with JSON, which belongs to the output."""
    writes: bool = False
    """It changes tables: before the next case all name servers must have come to the same."""
    waits: bool = False
    """Repeated until the output is as it should be: what it shows comes about by itself a moment later."""
    releases: tuple[str, ...] = ALL


@dataclass(frozen=True)
class Story:
    name: str
    cases: tuple[Case, ...]
