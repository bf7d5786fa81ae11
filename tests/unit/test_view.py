"""The view tells its listeners what an event touched and what was there before."""

from __future__ import annotations

from mqregistry.events.changes import BrokerRegistered, Row
from mqregistry.model import BrokerRow, QueueData
from mqregistry.server.view.view import View
from mqregistry.tables.tables import Tables


def registered(seq, addr="1.1.1.1:10911"):
    return BrokerRegistered(
        seq, 1, broker_name="a", who=f"c|{addr}", cluster="c", addr=addr, rev=seq,
        topics={f"t{seq}": QueueData(4, 4, 6)}, row=Row("c", {0: addr}),
    )  # fmt: skip


def test_what_was_touched_and_the_row_before():
    view = View()
    first = view.apply(registered(1))
    assert (first.row_before, set(first.topics)) == (None, {"t1"})
    second = view.apply(registered(2, "1.1.1.2:10911"))
    assert second.row_before == BrokerRow("c", {0: "1.1.1.1:10911"}, rev=1)
    assert set(second.topics) == {"t1", "t2"}
    assert view.seq == 2


def test_listeners_are_called_in_order_with_the_change_already_in_the_view():
    view, heard = View(), []
    for name in ("first", "second"):
        view.subscribe(
            lambda applied, name=name: heard.append((name, applied.change.seq, "t1" in view.tables.topics)),
            lambda epoch, seq, name=name: heard.append((name, epoch, seq)),
        )
    view.apply(registered(1))
    view.load(Tables(), "e", 5)
    assert heard == [("first", 1, True), ("second", 1, True), ("first", "e", 5), ("second", "e", 5)]


def test_each_load_has_an_identity_of_its_own():
    view, seen = View(), []
    for _ in range(3):
        view.load(Tables(), "e", 5)
        seen.append(view.load_id)
        view.apply(registered(6))
        assert view.load_id == seen[-1]
    assert len({0, *seen}) == 4
