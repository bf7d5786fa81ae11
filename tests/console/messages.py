"""The sentences that the console can say: those that Babel finds in code and templates, and some of other rooms."""

from __future__ import annotations

from babel.messages.extract import extract_python
from jinja2.ext import babel_extract

from mqregistry.auth.decision import MISSING
from mqregistry.config.settings import options
from mqregistry.names import fault_of_name
from mqregistry.networks import why_unreachable
from tests.test_structure import ROOT

CONSOLE = ROOT / "registry/console"
FILES = [*(ROOT / "registry/operators").glob("*.py"), *CONSOLE.rglob("*.py"), *CONSOLE.glob("templates/*.html")]
FUNCTIONS = ("say", "marked", "say_number", "counted")


def calls(path):
    """The calls of our functions in a file: line, function, arguments; what is no literal is None."""
    with path.open("rb") as file:
        found = (
            extract_python(file, FUNCTIONS, [], {"encoding": "utf-8"}) if path.suffix == ".py"
            else babel_extract(file, FUNCTIONS, [], {})
        )  # fmt: skip
        for line, function, given, _ in found:
            yield line, function, given if isinstance(given, tuple | list) else (given,)


def message_of(function, given):
    """What the catalogue has for a call: a text, or two for a number; None: its text is no literal."""
    texts = [one for one in given if one is not None]
    if function == "counted":
        return None if not texts else (f"{{number}} {texts[0]}", f"{{number}} {(*texts, texts[0] + 's')[1]}")
    if function == "say_number":
        return tuple(texts[:2]) if len(texts) > 1 and all(" " in one for one in texts[:2]) else None
    return given[0]


def spoken():
    """Each sentence with the places that say it."""
    found = {}
    for path in sorted(FILES):
        for line, function, given in calls(path):
            if (message := message_of(function, given)) is not None:
                found.setdefault(message, []).append(f"{path.relative_to(ROOT)}:{line}")
    for option in options().values():  # kv.py shows them
        if option.about.shared and not option.about.secret:
            found.setdefault(option.about.help, []).append(f"the help of {option.key}")
    for addr in ("0.0.0.0:1", "127.0.0.1:1", "169.254.0.1:1", "172.17.0.2:1"):
        found.setdefault(why_unreachable(addr, "10.0.0.1:9"), []).append("registry/networks.py")
    for text in (*MISSING.values(), *map(fault_of_name, ("", "\n", "\ud800"))):
        found.setdefault(text, []).append("registry/auth/decision.py, registry/names.py")
    return found
