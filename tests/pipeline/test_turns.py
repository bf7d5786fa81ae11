"""Turns at the tables of one application."""

from __future__ import annotations

import threading

import pytest

from mqregistry.pipeline.turns import Stopped, Turns


def test_one_at_a_time_has_its_turn_and_a_wait_ends_with_the_run():
    stop = threading.Event()
    turns = Turns(stop)
    waits, ended = threading.Event(), []

    def wait():
        waits.set()
        try:
            with turns:
                ended.append("turn")
        except Stopped:
            ended.append("stopped")

    with turns:
        other = threading.Thread(target=wait)
        other.start()
        assert waits.wait(10)
        assert ended == []
        stop.set()
        other.join(10)
        assert ended == ["stopped"]
    with turns:  # nobody has it: also at the end
        pass
    with pytest.raises(ValueError, match="as it was"), turns:
        raise ValueError("as it was")
    wait()
    assert ended == ["stopped", "turn"]
