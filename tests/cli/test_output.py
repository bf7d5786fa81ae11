"""What the operators' commands print of foreign text."""

from __future__ import annotations

import io

from mqregistry.cli import output
from mqregistry.model import BrokerRow, QueueData, TopicRoute

HOSTILE = "a\nfake row\x1b[2J\u202e"
SHOWN = r"a\nfake row\x1b[2J\u202e"


def test_a_tables_cells_cannot_act_on_the_terminal():
    assert output.table(("NAME",), [(HOSTILE,)]).splitlines() == ["NAME", SHOWN]


def test_wide_characters_do_not_shift_the_columns():
    shown = output.table(("NAME", "N"), [("主题", 1), ("e\u0301", 22), ("abcd", 3)], right=("N",))
    assert shown.splitlines() == ["NAME   N", "主题   1", "e\u0301     22", "abcd   3"]


def test_a_table_is_not_wrapped():
    (_, row) = output.table(("A", "B"), [("a" * 200, "b" * 200)]).splitlines()
    assert len(row) == 402


def test_a_routes_text_is_printable():
    route = TopicRoute(
        queue_datas={HOSTILE: QueueData(1, 1, 6)},
        broker_rows={HOSTILE: BrokerRow(HOSTILE, {0: HOSTILE})},
        filter_servers={HOSTILE: [HOSTILE]},
        mappings={HOSTILE: HOSTILE},
        order_topic_conf=HOSTILE,
    )
    text = output.route_text(HOSTILE, route)
    assert text.count("\n") == 5
    assert text.count(SHOWN) == 9
    assert "\x1b" not in text


def test_a_value_is_raw_for_programs_and_printable_on_a_terminal(capsys, monkeypatch):
    output.show_value("a\nb\u202e")
    assert capsys.readouterr().out == "a\nb\u202e\n"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    output.show_value(HOSTILE)
    assert terminal.getvalue() == "a\nfake row\\x1b[2J\\u202e\n"


def test_json_is_left_as_it_is(capsys):
    output.json_line({"a": "\u202e"})
    assert capsys.readouterr().out == '{"a":"\u202e"}\n'
