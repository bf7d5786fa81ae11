"""Every Redis key of the project, by kind. ``P`` is ``mq:{<namespace>}:``: one namespace is one hash slot.

What authentication keeps is outside of ``P``, below ``mqauth:{<namespace>}:``, in the same slot: secrets are among it,
and Redis logins that may read ``mq:*`` must not read those.

Each function names one kind of key; its docstring gives the type, the contents, the expiry (TTL), the Lua scripts that
write it, and the table of the Java NameServer that it is. *Removals* are unregister_broker, unregister_broker_id,
channel_destroyed and expire_brokers. *who* is ``<cluster>|<broker address>`` (``Behaviour.who``), an
*incarnation* the random name of one life of a front-end worker. tests/store/test_keys.py compares all of this with
the scripts.
"""

from __future__ import annotations


def prefix(namespace: str) -> str:
    """``P`` of a namespace: what all of its keys begin with."""
    return f"mq:{{{namespace}}}:"


def meta(namespace: str) -> str:
    """HASH: epoch (random, of this history of the namespace), seq (of the last change), n (of the last registration),
    config_rev, auth_revision and auth_mode (copies of the policy's), schema, schema_minor, compat, legend (what short
    names mean); seen_ms (when a lease was last renewed), up_since (the last gap without renewals, lua/include/seen);
    lost_ms (when Redis came back with less, or was made anew), losses (how often), given_by (who gave back what was
    lost, give_back); tidied_ms (when tidy_topics last did something); chain (of the last event); of the streams
    stream_limits (the most entries each may have), changes_bytes and lookups_bytes (bytes of all entries there ever
    were), last_change (id of the last entry of the change stream).

    TTL: none. Java: none.
    Writers: every script that changes something; init_namespace makes it.
    """
    return prefix(namespace) + "meta"


def auth_prefix(namespace: str) -> str:
    """What the keys of authentication begin with."""
    return f"mqauth:{{{namespace}}}:"


def changes(namespace: str) -> str:
    """STREAM: every change of the tables, in order: one field e, an event as JSON (:mod:`mqregistry.events.changes`).

    TTL: none; trim_streams keeps it within its limits. Java: none.
    Writers: every script that changes a table, trim_streams.
    """
    return prefix(namespace) + "changes"


def heartbeats(namespace: str) -> str:
    """STREAM: an entry for each sign of life of a broker: one field e (:mod:`mqregistry.events.journal`).

    TTL: none; trim_streams keeps it within its limits. Java: none.
    Writers: heartbeat, register_broker, touch_broker, trim_streams.
    """
    return prefix(namespace) + "heartbeats"


def lookups(namespace: str) -> str:
    """STREAM: counts of route lookups, one entry or more for each front-end worker and ten seconds: one field e.

    TTL: none; trim_streams keeps it within its limits. Java: none.
    Writers: write_lookups, trim_streams.
    """
    return prefix(namespace) + "lookups"


def counted(namespace: str) -> str:
    """HASH: worker incarnation -> number and time (ms) of its last report of lookups, so that a report that is sent
    twice is written once.

    TTL: none; write_lookups drops fields after a day. Java: none.
    Writers: write_lookups.
    """
    return prefix(namespace) + "counted"


def readers(namespace: str) -> str:
    """HASH: name of a reader of the streams -> JSON: when it was last heard of, its position in each stream.

    TTL: none. Java: none.
    Writers: acknowledge, forget_reader, trim_streams.
    """
    return prefix(namespace) + "readers"


def clusters(namespace: str) -> str:
    """SET: the names of the clusters.

    TTL: none. Java: RouteInfoManager.clusterAddrTable, its keys.
    Writers: register_broker, removals.
    """
    return prefix(namespace) + "clusters"


def cluster(namespace: str, name: str) -> str:
    """SET: the brokerNames of one cluster.

    TTL: none. Java: RouteInfoManager.clusterAddrTable.
    Writers: register_broker, removals.
    """
    return f"{prefix(namespace)}cluster:{name}"


def brokers(namespace: str) -> str:
    """SET: the brokerNames.

    TTL: none. Java: RouteInfoManager.brokerAddrTable, its keys.
    Writers: register_broker, removals.
    """
    return prefix(namespace) + "brokers"


def broker(namespace: str, broker_name: str) -> str:
    """HASH: a broker id -> its address; cluster, zone, acting (1: a slave may act as master), rev (the seq of the last
    change of this row or of its queue data).

    TTL: none. Java: RouteInfoManager.brokerAddrTable.
    Writers: register_broker, delete_topic, register_topic, set_write_perm, removals.
    """
    return f"{prefix(namespace)}broker:{broker_name}"


def queues(namespace: str, broker_name: str) -> str:
    """HASH: topic -> queue data of this brokerName as JSON: r (read queues), w (write queues), p (perm), f
    (topicSysFlag).

    TTL: none. Java: RouteInfoManager.topicQueueTable, by brokerName and not by topic.
    Writers: register_broker, register_topic, delete_topic, set_write_perm, finish_wipe, removals.
    """
    return f"{prefix(namespace)}queues:{broker_name}"


def topic(namespace: str, topic: str) -> str:
    """SET: the brokerNames that have this topic; the queue data says what they have. One whose queue data is missing is
    about to be taken out (lua/include/topic_sets).

    TTL: none. Java: RouteInfoManager.topicQueueTable.
    Writers: register_broker, register_topic, delete_topic, tidy_topics, removals.
    """
    return f"{prefix(namespace)}topic:{topic}"


def topics(namespace: str) -> str:
    """SET: the topics.

    TTL: none. Java: RouteInfoManager.topicQueueTable, its keys.
    Writers: register_broker, register_topic, delete_topic, tidy_topics, removals.
    """
    return prefix(namespace) + "topics"


def arriving(namespace: str) -> str:
    """HASH: brokerName that gained many topics -> where tidy_topics goes on entering them into ``topic``.

    TTL: none. Java: none.
    Writers: register_broker, tidy_topics, removals.
    """
    return prefix(namespace) + "arriving"


def leaving(namespace: str) -> str:
    """HASH: number -> brokerName that left, and had many topics, which tidy_topics takes out of ``topic``.

    TTL: none. Java: none.
    Writers: tidy_topics, removals.
    """
    return prefix(namespace) + "leaving"


def leaving_queues(namespace: str, number: str) -> str:
    """HASH: what was the queue data of a brokerName that left, as far as tidy_topics has not been through it.

    TTL: none. Java: none.
    Writers: tidy_topics, removals.
    """
    return f"{prefix(namespace)}leaving:{number}"


def wiping(namespace: str) -> str:
    """HASH: brokerName that lost its last master -> what to go on with, while its topics lose their write permission in
    parts (lua/include/wiping).

    TTL: none. Java: none.
    Writers: set_write_perm, finish_wipe, removals.
    """
    return prefix(namespace) + "wiping"


def mappings(namespace: str) -> str:
    """SET: the static topics.

    TTL: none. Java: RouteInfoManager.topicQueueMappingInfoTable, its keys.
    Writers: register_broker.
    """
    return prefix(namespace) + "mappings"


def mapping(namespace: str, topic: str) -> str:
    """HASH: brokerName -> the static topic's mapping there, as JSON.

    TTL: none. Java: RouteInfoManager.topicQueueMappingInfoTable.
    Writers: register_broker.
    """
    return f"{prefix(namespace)}mapping:{topic}"


def filter_servers(namespace: str, who: str) -> str:
    """LIST: the filter servers of one broker process.

    TTL: none. Java: RouteInfoManager.filterServerTable.
    Writers: register_broker, unregister_broker, unregister_broker_id, removals.
    """
    return f"{prefix(namespace)}filter:{who}"


def live(namespace: str, who: str) -> str:
    """HASH: the live info of one broker process: cluster, addr, name:<brokerName> -> broker id, timeout_ms, counter,
    timestamp and state_version (its data version), ha, update_ms (last sign of life), period_ms (between the last two
    beats), closed_at and closed_as (a connection closed since, and why); of its last registration n, digest, rev,
    config_rev, restored (n, if Redis had lost it, and that gave it back), user ("<n> <user>": whose broker it is;
    counts only while n is the same; absent: nobody's known).

    TTL: none; ``deadlines`` decides when it is removed. Java: RouteInfoManager.brokerLiveTable.
    Writers: heartbeat, register_broker, touch_broker, channel_destroyed, reap_worker, release_channels, removals.
    """
    return f"{prefix(namespace)}live:{who}"


def beat(namespace: str, who: str) -> str:
    """STRING: the time (ms) of the last sign of life, for people: no script reads it.

    TTL: the broker's heartbeat timeout. Java: BrokerLiveInfo.lastUpdateTimestamp.
    Writers: heartbeat, register_broker, touch_broker, removals.
    """
    return f"{prefix(namespace)}beat:{who}"


def deadlines(namespace: str) -> str:
    """ZSET: who -> the time (ms) at which the broker process is removed unless it beats before.

    TTL: none. Java: none: Java scans brokerLiveTable.
    Writers: heartbeat, register_broker, touch_broker, expire_brokers, renew_lease, removals.
    """
    return prefix(namespace) + "deadlines"


def disconnected(namespace: str) -> str:
    """ZSET: who -> the time (ms) at which a broker process goes that has no connection, unless it beats before.

    TTL: none. Java: none.
    Writers: heartbeat, register_broker, touch_broker, renew_lease, release_channels, reap_worker, removals.
    """
    return prefix(namespace) + "disconnected"


def channels(namespace: str, who: str) -> str:
    """HASH: front end -> the connection that this broker process speaks over there:
    <incarnation>/<connection>@<opened_ms>.

    TTL: none. Java: BrokerLiveInfo.channel.
    Writers: heartbeat, register_broker, touch_broker, attach_channels, channel_destroyed, release_channels,
        reap_worker, removals.
    """
    return f"{prefix(namespace)}channels:{who}"


def leases(namespace: str) -> str:
    """SET: the incarnations of the worker processes that hold, or held, channels.

    TTL: none. Java: none.
    Writers: renew_lease, attach_channels, heartbeat, register_broker, touch_broker, release_channels, reap_worker.
    """
    return prefix(namespace) + "leases"


def lease(namespace: str, incarnation: str) -> str:
    """STRING: exists while this worker process lives: the time (ms) of its last renewal.

    TTL: lease_ms of renew_lease (5 s). Java: none.
    Writers: renew_lease, release_channels.
    """
    return f"{prefix(namespace)}lease:{incarnation}"


def held(namespace: str, incarnation: str) -> str:
    """SET: the broker processes whose channel this worker process holds.

    TTL: none. Java: none.
    Writers: heartbeat, register_broker, touch_broker, attach_channels, channel_destroyed, release_channels,
        reap_worker, removals.
    """
    return f"{prefix(namespace)}held:{incarnation}"


def processes(namespace: str) -> str:
    """HASH: worker incarnation, or id of a sweeper -> "<time in ms> <JSON>": what it told of itself, and when
    (:mod:`mqregistry.store.processes`).

    TTL: none; an entry counts for the length of a lease, and goes after an hour. Java: none.
    Writers: renew_lease, release_channels, reap_worker.
    """
    return prefix(namespace) + "processes"


def peers(namespace: str) -> str:
    """HASH: worker incarnation -> JSON: broker process -> where its connection to this worker comes from.

    TTL: none; an entry goes with that of ``processes``. Java: the remote address of BrokerLiveInfo.channel.
    Writers: renew_lease, release_channels, reap_worker.
    """
    return prefix(namespace) + "peers"


def kv_namespaces(namespace: str) -> str:
    """SET: the KV namespaces, empty ones too.

    TTL: none. Java: KVConfigManager.configTable, its keys.
    Writers: put_kv, give_back.
    """
    return prefix(namespace) + "kv"


def kv(namespace: str, kv_namespace: str) -> str:
    """HASH: key -> value of one KV namespace.

    TTL: none. Java: KVConfigManager.configTable.
    Writers: put_kv, delete_kv, give_back.
    """
    return f"{prefix(namespace)}kv:{kv_namespace}"


def kv_sizes(namespace: str) -> str:
    """HASH: KV namespace -> bytes of its keys and values.

    TTL: none. Java: none: Java does not limit a KV namespace.
    Writers: put_kv, delete_kv, give_back.
    """
    return prefix(namespace) + "kv_sizes"


def config(namespace: str) -> str:
    """HASH: the shared configuration: property key -> value, as request 318 set it.

    TTL: none. Java: Configuration (namesrv.properties).
    Writers: set_config.
    """
    return prefix(namespace) + "config"


def auth_policy(namespace: str) -> str:
    """HASH: mode (off, observe, enforce), revision (rises with every change of users, rules or the mode),
    changed:<user> (the revision at which that user changed or was removed; without a name: the mode), forgotten (the
    highest of those of removed users that are kept no longer).

    TTL: none. Java: none: it authenticates nobody.
    Writers: init_namespace, change_auth, restore_auth.
    """
    return auth_prefix(namespace) + "policy"


def auth_users(namespace: str) -> str:
    """HASH: name of a user -> its JSON, with roles, rules, secrets (:class:`mqregistry.auth.users.User`).

    TTL: none. Java: plain_acl.yml, and the metadata of ACL 2.0, of brokers.
    Writers: change_auth, restore_auth.
    """
    return auth_prefix(namespace) + "users"


def auth_used(namespace: str) -> str:
    """HASH: id of a secret -> the time (ms) of its last use, to two minutes.

    TTL: none. Java: none.
    Writers: note_auth_used, change_auth, restore_auth.
    """
    return auth_prefix(namespace) + "used"


def auth_refused(namespace: str) -> str:
    """HASH: kind of request that was refused, as JSON -> how many, and when (:mod:`mqregistry.auth.refused`).

    TTL: none; note_refused keeps 2,000 kinds. Java: none.
    Writers: note_refused.
    """
    return auth_prefix(namespace) + "refused"


def auth_refusals(namespace: str) -> str:
    """STREAM: what front ends reported of refused requests: one field e (:mod:`mqregistry.auth.refused`).

    TTL: none; note_refused keeps some 10,000 entries. Java: none.
    Writers: note_refused.
    """
    return auth_prefix(namespace) + "refusals"
