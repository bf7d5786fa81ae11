"""What the fork server of :mod:`tests.forked` imports, once for all processes that it forks."""

import contextlib

from mqregistry.cli.read import brokers, clusters, tables, topics, watch  # noqa: F401
from mqregistry.cli.run import serve, sweep, up  # noqa: F401
from mqregistry.server.process import supervisor, worker  # noqa: F401
from mqregistry.store import scripts

from . import forked  # noqa: F401

scripts.load()
with contextlib.suppress(ImportError):  # an extra
    import mqregistry.console.app  # noqa: F401
