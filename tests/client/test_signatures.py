"""The blocking clients take the same as the asynchronous ones, said in full so that editors can complete it."""

from __future__ import annotations

import inspect

import pytest

from mqregistry.client import BrokerRegistrar, BrokerRegistrarSync, RouteClient, RouteClientSync, TopicTable

PAIRS = [(BrokerRegistrar, BrokerRegistrarSync), (RouteClient, RouteClientSync)]


def parameters(function):
    return {
        name: (parameter.kind, parameter.default, parameter.annotation)
        for name, parameter in inspect.signature(function).parameters.items()
    }


@pytest.mark.parametrize(("asynchronous", "blocking"), PAIRS)
def test_the_constructors_take_the_same(asynchronous, blocking):
    found = parameters(blocking)
    assert found == parameters(asynchronous)
    for name, (kind, _, annotation) in found.items():
        assert kind is not inspect.Parameter.VAR_KEYWORD or annotation.startswith("Unpack["), name
        assert annotation not in (inspect.Parameter.empty, "Any"), name


@pytest.mark.parametrize(("asynchronous", "blocking"), [*PAIRS, (TopicTable, BrokerRegistrarSync)])
def test_the_methods_take_the_same(asynchronous, blocking):
    compared = []
    for name, method in inspect.getmembers(blocking, inspect.isfunction):
        other = getattr(asynchronous, name, None)
        if name.startswith("_") or name == "close" or not inspect.isfunction(other):
            continue
        expected = parameters(other)
        if (blocking, name) == (RouteClientSync, "update"):
            del expected["use_default"], expected["over"]  # for the client itself
        assert parameters(method) == expected, name
        compared.append(name)
    assert len(compared) >= 3, compared
