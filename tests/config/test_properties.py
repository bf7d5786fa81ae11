"""Java's own rules for .properties files (java.util.Properties.load)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry.config.properties import PropertiesSyntaxError, Property, line, parse


def pairs(text: str | bytes) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in parse(text if isinstance(text, bytes) else text.encode())]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a\tb", [("a", "b")]),
        (" \t a  =  b  ", [("a", "b  ")]),  # blanks at the end belong to the value
        ("a = = b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=b", [("", "b")]),
        ("# c\n! c\n  # c\na=b", [("a", "b")]),
        ("a=b # no comment", [("a", "b # no comment")]),
        ("\n\r\n \t\na=b\r\nc=d\re=f", [("a", "b"), ("c", "d"), ("e", "f")]),
        ("a=b\\\n   c\\\r\n\td", [("a", "bcd")]),
        ("a=b\\\n#c", [("a", "b#c")]),  # a continued line is no comment
        ("# c \\\na=b", [("a", "b")]),  # nor is a comment continued
        ("a=b\\\\\nc=d", [("a", "b\\"), ("c", "d")]),  # an even number of backslashes continues nothing
        ("a=b\\", [("a", "b")]),
        ("\\\n#c", []),  # but what continues nothing may be a comment, or blank
        ("\\\n\\\n \na=b", [("a", "b")]),
        ("a\\\n\\\n#=b", [("a#", "b")]),
        ("a\\ b\\=c\\:d=e", [("a b=c:d", "e")]),
        (r"a=\t\n\r\f\\\q\"", [("a", '\t\n\r\f\\q"')]),
        (r"a=\u0041\u00fc", [("a", "Aü")]),
        (r"a=\ud83d\ude00", [("a", "😀")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("ü=ö", [("ü", "ö")]),
        ("ü=ö".encode("iso-8859-1"), [("ü", "ö")]),
        (b"\xef\xbb\xbfa=b", [("a", "b")]),
        ("", []),
    ],
)
def test_parse_gives_what_java_reads(text, expected):
    assert pairs(text) == expected


def test_parse_numbers_the_line_where_an_entry_begins():
    assert parse(b"# c\n\na=1\\\n  2\nb=3") == [Property("a", "12", 3), Property("b", "3", 5)]


def test_parse_unicode_line_separator_ends_no_line():
    assert pairs("a=b\u2028c") == [("a", "b\u2028c")]


@pytest.mark.parametrize("text", [r"a=\u12", r"a=\uzzzz", r"\u=b"])
def test_parse_broken_unicode_escape_names_the_line(text):
    with pytest.raises(PropertiesSyntaxError) as raised:
        parse(b"x=y\n" + text.encode())
    assert raised.value.line == 2


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_parse_reads_back_what_is_written_escaped(table):
    def escaped(text: str) -> str:
        return "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"))

    text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in table.items())
    expected = [tuple(part.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for part in pair)
                for pair in table.items()]  # fmt: skip
    assert pairs(text) == expected


# No surrogates: a text of them alone is no text.
_TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from(' \t\f\r\n=:#!\\"u0'))


@st.composite
def written(draw):
    """Pairs, and a text that holds them, escaped no more than it must be and broken wherever it may be."""
    charset = draw(st.sampled_from(["utf-8", "iso-8859-1"]))
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}

    def escaped(text: str, special: str) -> str:
        found = []
        for place, char in enumerate(text):
            if char in named:
                shown = named[char]
            elif char in special or (place == 0 and char in " #!=:"):
                shown = "\\" + char
            elif charset == "iso-8859-1" and ord(char) > 126:
                units = char.encode("utf-16-be")
                shown = "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2))
            else:
                shown = char
            found.append(shown)
            if text[place + 1 : place + 2] not in ("", " ") and draw(st.integers(0, 9)) == 0:
                found.append("\\" + draw(ends) + draw(blanks))
        return "".join(found)

    ends = st.sampled_from(["\n", "\r\n", "\r"])
    blanks = st.text(" \t\f", max_size=3)
    pairs, text = draw(st.lists(st.tuples(_TEXT.filter(bool), _TEXT), max_size=6)), ""
    for key, value in pairs:
        text += draw(st.sampled_from(["", "# a=b\\", "! c", " \t", "\f#"])) + draw(ends)
        text += draw(blanks) + escaped(key, " \t\f=:")
        text += draw(st.sampled_from(["=", ":", " = ", "\t:\f", " "])) + escaped(value, "") + draw(ends)
    return pairs, text.encode(charset)


@given(written())
def test_parse_reads_back_what_is_written_in_any_style(both):
    expected, data = both
    assert pairs(data) == expected


@given(st.lists(st.tuples(_TEXT, _TEXT)))
def test_parse_reads_back_what_line_writes(entries):
    assert pairs("".join(line(key, value) for key, value in entries)) == entries
