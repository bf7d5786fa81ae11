"""Encodes a route's lists of brokers and of queue data, from parts that many topics share.

Most topics of a cluster are on the same brokers. So the list of brokers is encoded once for all these topics; for each
topic only the numbers of its queue data are encoded.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from itertools import chain
from typing import Final

from ...model import BrokerRow, QueueData
from .wire_json import integer_map, text

_MAX_KEPT_BROKERS: Final = 20_000
# The most sets of brokerNames that are kept, and the most names in such a set; a name takes a few hundred bytes.
_MAX_KEPT_SETS: Final = 2_000
_MAX_SET: Final = 64
# Few sets are larger, for example that of TBW102, which is on every broker.
_MAX_KEPT_LARGE_SETS: Final = 8

# The encoded parts, with the rows that they were made of. Rows are never changed, only replaced.
_KeptBrokers = dict[str, tuple[BrokerRow, bytes]]
_kept_brokers: Final[dict[tuple[bool, bool], _KeptBrokers]] = {}
_kept_lists: Final[dict[tuple[tuple[str, ...], bool, bool], tuple[list[BrokerRow], bytes]]] = {}


def broker_json(name: str, row: BrokerRow, quoted_keys: bool, *, acting_master: bool) -> bytes:
    """Encode one broker; ``acting_master``: with enableActingMaster and zoneName, as in 5.x."""
    known = _kept_brokers.setdefault((quoted_keys, acting_master), {})
    kept = known.get(name)
    if kept is not None and kept[0] is row:
        return kept[1]
    if len(known) >= _MAX_KEPT_BROKERS:
        known.clear()
    made = _make_broker_json(name, row, quoted_keys, acting_master=acting_master)
    known[name] = row, made
    return made


def brokers_json(rows: Mapping[str, BrokerRow], quoted_keys: bool, *, acting_master: bool) -> bytes:
    """Encode the list of these brokers, in the order of their names."""
    if not rows:
        return b"[]"
    key, values = (tuple(rows), quoted_keys, acting_master), list(rows.values())
    kept = _kept_lists.get(key)
    if kept is not None and kept[0] == values:
        return kept[1]
    known = _kept_brokers.setdefault(key[1:], {})
    parts = [
        one[1] if (one := known.get(name)) is not None and one[0] is rows[name]
        else broker_json(name, rows[name], quoted_keys, acting_master=acting_master)
        for name in _heads_of(key[0])[0]
    ]  # fmt: skip
    made = b"[%b]" % b",".join(parts)
    if len(values) <= _MAX_SET:
        if len(_kept_lists) >= _MAX_KEPT_SETS:
            _kept_lists.clear()
        _kept_lists[key] = values, made
    return made


def queue_datas_json(queue_datas: Mapping[str, QueueData], *, topic_syn_flag: bool) -> bytes:
    """Encode the list of queue data by brokerName, in the order of the names."""
    names = tuple(queue_datas)
    if not names:
        return b"[]"
    ordered, heads = _heads_of(names)
    values = list(map(queue_datas.__getitem__, ordered))
    form = _SYN_FLAG if topic_syn_flag else _SYS_FLAG
    first = values[0]
    if values.count(first) == len(values):
        numbers = _numbers(form, first)
        return b"[%b%b]" % (numbers.join(heads), numbers)
    by_id = dict(zip(map(id, values), values, strict=True))  # brokers that have the same queues share an object
    numbers_by_id = {number: _numbers(form, one) for number, one in by_id.items()}
    numbers_of_each = map(numbers_by_id.__getitem__, map(id, values))
    return b"[%b]" % b"".join(chain.from_iterable(zip(heads, numbers_of_each, strict=True)))


_SYS_FLAG: Final = b'"perm":%d,"readQueueNums":%d,"topicSysFlag":%d,"writeQueueNums":%d}'
_SYN_FLAG: Final = _SYS_FLAG.replace(b"topicSysFlag", b"topicSynFlag")


def _numbers(form: bytes, data: QueueData) -> bytes:
    return form % (data.perm, data.read_queue_nums, data.topic_sys_flag, data.write_queue_nums)


def _make_heads(names: tuple[str, ...]) -> tuple[list[str], list[bytes]]:
    """The sorted names, and for each the JSON before its numbers; it begins with a comma, except for the first name."""
    ordered = sorted(names)
    heads = list(map(_head, ordered))
    heads[0] = heads[0][1:]
    return ordered, heads


@functools.lru_cache(_MAX_KEPT_BROKERS)
def _head(name: str) -> bytes:
    return b',{"brokerName":%b,' % text(name)


def _heads_of(names: tuple[str, ...]) -> tuple[list[str], list[bytes]]:
    return _heads(names) if len(names) <= _MAX_SET else _large_heads(names)


_heads = functools.lru_cache(_MAX_KEPT_SETS)(_make_heads)
_large_heads = functools.lru_cache(_MAX_KEPT_LARGE_SETS)(_make_heads)


def _make_broker_json(name: str, row: BrokerRow, quoted_keys: bool, *, acting_master: bool) -> bytes:
    head = b'{"brokerAddrs":%b,"brokerName":%b,"cluster":%b' % (
        integer_map(row.broker_addrs, quoted_keys),
        text(name),
        text(row.cluster),
    )
    if not acting_master:
        return head + b"}"
    zone = b"" if row.zone_name is None else b',"zoneName":' + text(row.zone_name)
    return b'%b,"enableActingMaster":%b%b}' % (head, text(row.enable_acting_master), zone)
