"""``convert``: what an operator with a namespace of an older schema is told, and does."""

from __future__ import annotations

import json

from tests.store.bed import Bed
from tests.store.test_convert import back_to_schema_1


def test_a_namespace_of_schema_1_is_converted_as_its_error_says(command, in_store, redis_url, namespace):
    async def old(store):
        await Bed(store).register(topics=["t1", "t2"])
        await back_to_schema_1(Bed(store))

    in_store(old)
    target = {"MQREGISTRY_REDIS": redis_url, "MQREGISTRY_NAMESPACE": namespace}
    refused = command("topics", expect=1, **target).exception
    assert "has schema version 1, this is version 2: stop all processes of the older release, then" in str(refused)
    assert "'mqregistry convert'" in str(refused)
    said = command("convert", **target).stdout
    assert said == f"namespace {namespace} has schema 2; 3 topics were moved\n"
    assert [row["topic"] for row in json.loads(command("topics", "--json", **target).stdout)] == ["t1", "t2"]
    assert command("convert", **target).stdout == f"namespace {namespace} has schema 2; there was nothing to do\n"
    assert json.loads(command("convert", "--json", **target).stdout) == {
        "namespace": namespace, "schema": 2, "topics_moved": 0,
    }  # fmt: skip
    assert "no namespace 'other'" in str(command("convert", "--namespace", "other", expect=1, **target).exception)
