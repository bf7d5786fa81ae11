"""A simulated day at a name server that never heard of it: a Java one takes all of it, and answers as planned."""

import asyncio

import pytest

from bench.servers.processes import Processes
from mqregistry.simulate.day import DayShape, OpKind
from mqregistry.simulate.plan import make_plan
from mqregistry.simulate.run import Outcome, Simulation

from .conftest import release_or_skip
from .name_servers import JavaNameServers, NameServer

# The first test may have to fetch a release; every wait has a deadline of its own.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

VERSION = "5.5.0"
# A Java name server looks for silent brokers each few seconds: that is how long an EXPIRE may take there.
SHAPE = DayShape(duration_ms=15_000, brokers=6, topics=30, clients=8)


@pytest.fixture
def java_name_server(processes: Processes) -> NameServer:
    return JavaNameServers(lambda: release_or_skip(VERSION), VERSION).start(processes)


def test_java_name_server_answers_a_day_as_planned(java_name_server: NameServer) -> None:
    plan = make_plan(SHAPE)
    outcome: Outcome = asyncio.run(Simulation(plan, [("127.0.0.1", java_name_server.port)]).run())
    assert outcome.faults == []
    assert outcome.is_complete
    assert {op.kind for op in plan.ops} == set(outcome.done) == set(OpKind) - {OpKind.UNLINK, OpKind.RELINK}
    assert outcome.done.total() == len(plan.ops)
