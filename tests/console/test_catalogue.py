"""The catalogue of each language has every sentence, none that nobody says, and the same holes in each."""

from __future__ import annotations

import ast
import re
import string

import pytest
from babel.messages.pofile import read_po

from mqregistry.console.locale.chosen import LANGUAGES

from .messages import CONSOLE, FILES, calls, message_of, spoken

OTHERS = [code for code in LANGUAGES if code != "en"]


def catalogue(code):
    with (CONSOLE / f"locale/{code}.po").open("rb") as file:
        return read_po(file, locale=code)


def translations(code):
    """English, one sentence or two for a number -> what the catalogue says, for each form of a number."""
    return {
        one.id: one.string if isinstance(one.string, tuple) else (one.string,)
        for one in catalogue(code) if one.id
    }  # fmt: skip


def holes(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("code", OTHERS)
def test_every_sentence_is_in_the_catalogue_and_no_other(code):
    said, known = spoken(), translations(code)
    missing = {message: places[0] for message, places in said.items() if message not in known}
    assert missing == {}, "\n\n".join(f"# {place}\nmsgid {message!r}" for message, place in missing.items())
    assert known.keys() - said.keys() == set()


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_has_the_holes_of_its_sentence_in_each_form(code):
    forms = catalogue(code).num_plurals
    for message, texts in translations(code).items():
        assert len(texts) == (forms if isinstance(message, tuple) else 1), message
        of = message if isinstance(message, tuple) else (message,)
        for text in texts:
            assert text, message
            assert holes(text) == holes(of[-1]), (message, text)


@pytest.mark.parametrize("code", OTHERS)
def test_a_translation_keeps_the_elements_the_commands_and_the_ends_of_its_sentence(code):
    for message, texts in translations(code).items():
        of = message[-1] if isinstance(message, tuple) else message
        for text in texts:
            assert text.count("<") == of.count("<"), (message, text)
            assert text.count("'mqregistry ") == of.count("'mqregistry "), (message, text)
            assert "\n" not in text


def test_what_is_said_is_found():
    found = spoken()
    assert len(found) > 600
    assert "registry/console/templates/now.html" in found["There is no change to show."][0]
    assert ("{number} topic", "{number} topics") in found
    assert message_of("counted", ("what",)) == ("{number} what", "{number} whats")
    assert message_of("counted", (None, "entry", "entries")) == ("{number} entry", "{number} entries")
    assert message_of("say_number", ("{number} is", "{number} are")) == ("{number} is", "{number} are")
    assert message_of("say", (None, "x")) is None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_sentence_is_put_together_before_it_is_looked_up(path):
    """A text with values in it, as of an f-string, is in no catalogue."""
    text = path.read_text()
    assert not [call for call in ('say(f"', 'marked(f"', 'say(f"{', "say(str(") if call in text]
    assert all(line > 0 for line, _, _ in calls(path))


OURS = {"say", "marked", "say_number", "counted"}
# Files whose other sentences no page shows, or that say them to programs and to who starts the console.
ELSEWHERE = {
    "why.py": "the command says them",
    "previews.py": "a command to copy",
    "guard.py": "what comes before any page",
    "reach.py": "what ends the start", "rules.py": "what ends the start",
    "sessions.py": "the log", "logins.py": "the log", "twins.py": "OpenAPI",
}  # fmt: skip
A_SENTENCE = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


def unspoken(text):
    """The sentences of a module that no function of ours gets: no docstrings, no logs, no patterns."""
    tree, spared = ast.parse(text), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            spared.add(node.value)
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in OURS or called.startswith("logger.") or called in ("Twin", "re.compile", "StartError"):
                spared.update(ast.walk(node))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spared
        if is_text and A_SENTENCE.search(re.sub(r"<[^>]*>?|https?://\S+", "", node.value)):
            yield node.value


def unspoken_in_template(text):
    """The words between the tags of a template that no function of ours gets, and those of its attributes."""
    text = re.sub(r"""hx-[a-z]+="[^"]*"|hx-headers='[^']*'|data-words=|id="live\"""", "", text)
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", "|", text, flags=re.S)
    text = re.sub(r"<meta name=[^>]*>|<code>[^<]*</code>", "", text)
    yield from (one.strip() for one in re.findall(r">([^<>]*[A-Za-z]{2,}[^<>]*)<", text))
    yield from re.findall(r'(?:title|aria-label|placeholder|data-label)="([^"]*[A-Za-z]{2,}[^"]*)"', text)


NAMES = {"id", "mqregistry", "KiB", "CSV", "JSON", "UTC", "Ctrl-K", "broker-a=8:8:6"}


def test_every_sentence_of_the_code_is_spoken():
    files = [path for path in FILES if path.suffix == ".py" and path.name not in ELSEWHERE]
    found = {path.name: texts for path in files if (texts := list(unspoken(path.read_text())))}
    assert found == {
        "findings.py": ["not ready"],  # a state, as Redis has it
        "login.py": ["Log in", "A form of name and secret to /login gives the cookie."],  # for programs
        "report.py": found["report.py"],  # a policy
    }
    assert "default-src" in found["report.py"][0]


@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".html"], ids=lambda path: path.name)
def test_every_sentence_of_a_template_is_spoken(path):
    words = [one for one in unspoken_in_template(path.read_text()) if not set(re.findall(r"[\w:=-]{2,}", one)) <= NAMES]
    assert words == []


def test_a_sentence_that_is_not_spoken_would_be_noticed():
    assert list(unspoken('"""A docstring."""\nx = f"It {y} and away"\nsay("it is said", a="as this is")')) == [
        " and away"
    ]
    page = '<p title="It is so">{{ say("This is said") }} and this not</p><td>{% if x %}Nor this{% endif %}</td>'
    assert list(unspoken_in_template(page)) == ["| and this not", "|Nor this|", "It is so"]


def test_no_style_and_no_script_of_ours_depends_on_words():
    """In another language a page would lose what they do."""
    for name in ("console.css", "console.js", "stream.js"):
        text = (CONSOLE / "static" / name).read_text()
        assert re.findall(r"""\[[a-z-]+[*^$|~]?=["']?[A-Z][^\]]*\]""", text) == [], name
