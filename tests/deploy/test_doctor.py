"""``doctor`` tries the rights of a login, with the users of deploy/."""

from __future__ import annotations

from mqregistry.store.connection.examination import TRIES, examine
from mqregistry.store.store import Store

from .files import granted, login

# Sent by redis-py, or before anything is tried.
BEGINNING = {"ping", "info", "select", "command", "cluster|slots", "asking"}


def test_every_right_of_a_front_end_is_tried():
    tried = {command.lower().replace(" ", "|") for command, *_ in TRIES}
    assert tried | BEGINNING == granted("mqregistry")


async def test_rights_that_a_login_lacks_are_named(deployed, namespace):
    async with Store(login(deployed, "mqregistry"), namespace) as store:
        await store.connect()
        (rights,) = [one for one in await examine(store) if one.check == "rights"]
        assert (rights.state, rights.found) == ("ok", "this login may do all that a front end does")
    async with Store(login(deployed, "mqoperator"), namespace) as store:
        (rights,) = [one for one in await examine(store) if one.check == "rights"]
    assert rights.state == "wrong"
    missing = set(rights.found.removeprefix("this login may not use ").split(", "))
    allowed = granted("mqoperator")
    assert missing == {
        f"{command} of mqauth*" if "AUTH" in arguments else command
        for command, *arguments in TRIES
        if "AUTH" in arguments or command.lower().replace(" ", "|") not in allowed
    }
