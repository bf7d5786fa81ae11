"""For tests of programs that use a name server: a whole registry, and brokers and clusters that only register.

pytest finds the fixtures ``mq_registry``, ``mq_broker`` and ``mq_cluster`` if mqregistry is installed
(:mod:`mqregistry.testing.plugin`). ``__all__`` is the public interface; each name is imported when it is first used,
because pytest loads the plugin in every run.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .brokers import FakeBroker, FakeCluster
    from .in_process import InProcessRegistry
    from .local_registry import LocalRegistry, eventually

_MODULES: Final = {
    "FakeBroker": "brokers", "FakeCluster": "brokers",
    "InProcessRegistry": "in_process", "LocalRegistry": "local_registry", "eventually": "local_registry",
}  # fmt: skip

__all__ = ["FakeBroker", "FakeCluster", "InProcessRegistry", "LocalRegistry", "eventually"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
