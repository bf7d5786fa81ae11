"""Names from outside, and foreign text on its way to a log or a terminal."""

import doctest
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqregistry import names
from mqregistry.names import (
    MAX_NAME_BYTES,
    PrintableFormatter,
    fault_of_address,
    fault_of_name,
    fault_of_names,
    printable,
)


def test_the_docstring_example_is_true():
    assert doctest.testmod(names).failed == 0


@pytest.mark.parametrize("name", ["a", "%RETRY%group", "主题", "x" * MAX_NAME_BYTES, "ü" * 127, "a b|c"])
def test_good_names_have_no_fault(name):
    assert fault_of_name(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "is empty"),
        ("x" * 256, "has 256 bytes, at most 255 are allowed"),
        ("ü" * 128, "has 256 bytes, at most 255 are allowed"),
        ("a\nb", "has a control character"),
        ("a\x00", "has a control character"),
        ("a\x9b", "has a control character"),
    ],
)
def test_bad_names_are_told(name, fault):
    assert fault_of_name(name) == fault


@given(st.text(alphabet=st.characters()))
def test_printable_text_is_one_line_without_escapes_and_keeps_the_rest(text):
    shown = printable(text)
    assert not any(c in shown for c in "\x1b\n\r\t\x00\x9b\u2028\u202e\u2066")
    assert len(shown.splitlines()) <= 1
    if text.isprintable():
        assert shown == text
    shown.encode()


def test_half_of_a_surrogate_pair_is_told():
    assert fault_of_name("a\ud800") == "has half of a surrogate pair, which no UTF-8 text has"


def test_an_address_with_a_bar_has_a_fault():
    assert fault_of_address("c|127.0.0.1:10911") == "has a |, which is no part of host:port"
    assert fault_of_address("127.0.0.1:10911") is None
    assert fault_of_address("a\tb") == "has a control character"


@given(st.lists(st.one_of(st.text(max_size=3), st.sampled_from(["x" * 255, "x" * 256, "ü" * 128, "a\nb"]))))
def test_many_names_have_a_fault_when_one_of_them_has(several):
    assert (fault_of_names(several) is None) == all(fault_of_name(name) is None for name in several)


def test_a_logged_record_is_one_line_and_its_traceback_keeps_lines_that_look_like_no_record():
    try:
        raise ValueError("bad\n2026 ERROR forged\x1b[2J")
    except ValueError:
        record = logging.LogRecord("n", logging.INFO, "f", 1, "of %s", ("x\n2026 ERROR forged",), sys.exc_info())
    first, *traceback = PrintableFormatter("%(levelname)s %(message)s").format(record).splitlines()
    assert first == "INFO of x\\n2026 ERROR forged"
    assert traceback[0] == "  Traceback (most recent call last):"
    assert traceback[-1] == "  2026 ERROR forged\\x1b[2J"
    assert all(line.startswith("  ") for line in traceback)
