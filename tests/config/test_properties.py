"""Java's own rules for .properties files (java.util.Properties.load)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.properties import PropertiesSyntaxError, Property, parse


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
