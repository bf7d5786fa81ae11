"""A front end of a release without authentication comes back after enforce was set: the new one tells of it."""

from __future__ import annotations

import json

import pytest

from mqregistry.server.auth.older_releases import what_they_do

from .auth_bed import Rules
from .harness import wait_until
from .serving import Serving, get


class OldFrontEnd:
    """The lease of one, as its script renew_lease writes it: of the key ``releases`` it knows nothing."""

    def __init__(self, rules: Rules) -> None:
        self._redis, self._prefix = rules.redis, f"mq:{{{rules.namespace}}}:"

    def come_back(self) -> None:
        self._redis.set(f"{self._prefix}lease:of-old", 1, px=60_000)
        self._redis.sadd(f"{self._prefix}leases", "of-old")

    def end(self) -> None:
        """As after its drain."""
        self._redis.delete(f"{self._prefix}lease:of-old")


@pytest.fixture
def place(tmp_path, redis_url):
    serving = Serving(tmp_path, redis_url, workers=2)
    rules = Rules(redis_url, serving.namespace)
    yield serving, rules
    serving.close()
    rules.close()


def test_an_older_front_end_that_comes_back_is_told_of_until_it_ends(place):
    serving, rules = place
    rules.begin("enforce")
    old = OldFrontEnd(rules)

    def warnings() -> list[str]:
        answer = get(serving.http_port, "/readyz")
        assert answer.status == 200, "this front end is not to blame, and refuses"
        return json.loads(answer.body).get("warnings", [])

    wait_until(lambda: serving.metrics()["auth_revision"] == rules.read().revision, "rules are in force")
    assert (serving.metrics()["auth_older_workers"], warnings()) == (0, [])
    old.come_back()
    wait_until(lambda: serving.metrics()["auth_older_workers"] == 1, "it is counted")
    assert warnings() == [what_they_do(1)]
    wait_until(lambda: serving.log.count("of a release without authentication serve") == 1, "one worker says it once")
    with serving.client() as client:
        assert client.request(100, {"namespace": "N", "key": "k", "value": "v"}).code == 16
    old.end()
    wait_until(lambda: serving.metrics()["auth_older_workers"] == 0, "it is gone")
    assert warnings() == []
    assert "no worker process of an older release serves this namespace any more" in serving.log


def test_while_nothing_is_enforced_an_older_front_end_is_as_good_as_any(place):
    serving, rules = place
    OldFrontEnd(rules).come_back()
    revision = rules.set_mode("off").revision
    wait_until(lambda: serving.metrics()["auth_revision"] == revision, "the mode is off")
    assert serving.metrics()["auth_older_workers"] == 0
    assert "of a release without authentication" not in serving.log
