"""The status line that a worker sends to the supervisor every second; ``/metrics`` and ``/readyz`` are made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ....histograms import add_up
from ....queued_output import dropped_lines
from ....store.store import Store
from ...net.connections import Connections
from ...net.tls import Tls
from ...requests.context import RequestContext
from ...view.follower import Follower
from ...view.freshness import Freshness
from ...view.lease_loop import LeaseLoop
from ...view.view import View
from ..authentication import Authentication
from .worker_figures import ChangeCounts, LoopDelays, UnwritableTopics, process_figures, roles


def status(
    view: View, follower: Follower, lease_loop: LeaseLoop, context: RequestContext, connections: Connections, tls: Tls,
    authentication: Authentication, stores: Iterable[Store], changes: ChangeCounts, unwritable: UnwritableTopics,
    loop_delays: LoopDelays, *, waits_for_redis: bool,
) -> dict[str, Any]:  # fmt: skip
    """The members of a status line, as ``Status`` has them; ``stores``: the stores whose Redis calls are counted."""
    renewal = lease_loop.renewal
    by_role, without_master = roles(view.tables.brokers)
    grace_ms = context.settings.broker_channel_expired_time_ms
    overdue_ms = renewal.overdue_ms if renewal is not None and view.freshness.redis_answers else 0
    failures = Counter[str]()
    for store in stores:
        failures.update(store.times.counters())
    return {
        "event": "status",
        "ready": view.freshness is not Freshness.LOADING,
        "draining": context.draining,
        "redis_away": waits_for_redis or view.freshness is Freshness.AWAY,
        "gauges": {
            "view_stale": float(view.freshness is not Freshness.FRESH),
            "view_seq": view.seq,
            "view_lag_seconds": follower.lag_ms / 1000,
            "grace": float(renewal is not None and renewal.now_ms < renewal.up_since_ms + grace_ms),
            "broker_overdue_seconds": overdue_ms / 1000,
            "connections": len(connections.all),
            "held_bytes": connections.held.bytes,
            "channels": len(context.channels),
            "closes_pending": context.channels.closes_pending,
            "brokers_alive": sum(len(row.broker_addrs) for row in view.tables.brokers.values()),
            "topics": len(view.tables.topics),
            "rate_addresses": context.rates.addresses,
            "broker_names_without_master": without_master,
            "topics_unwritable": unwritable.number,
            "loop_lag_seconds": loop_delays.take_most_s(),
            **authentication.gauges(),
        },
        "roles": by_role,
        "certificates_end_s": tls.ends,
        **process_figures(),
        "counters": {
            "view_rebuilds_total": view.load_id,
            **context.counters.report(), **changes.report(), **context.rates.report(), **failures,
            **authentication.counters(), "log_lines_dropped_total": dropped_lines(),
        },
        "durations": {
            **add_up(store.times.durations() for store in stores),
            **context.counters.told_durations(),
            "change_visible_seconds": follower.visible_after.told(),
            "loop_delay_seconds": loop_delays.durations.told(),
        },
    }  # fmt: skip
