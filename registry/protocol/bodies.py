"""All bodies, encoded and decoded; see the modules they come from."""

from __future__ import annotations

from .register_body import (
    MAX_INFLATED_BYTES,
    RegisterBody,
    body_crc32,
    check_crc32,
    decode_register_body,
    decode_topic_config_wrapper,
    encode_register_body,
)
from .route_body import (
    BrokerMemberGroup,
    decode_broker_member_group,
    decode_cluster_info,
    decode_route,
    encode_broker_member_group,
    encode_cluster_info,
    encode_route,
)
from .table_body import (
    TopicList,
    decode_data_version,
    decode_kv_table,
    decode_topic_list,
    encode_data_version,
    encode_kv_table,
    encode_topic_list,
)
from .wire_json import decode_mapping, encode_mapping

__all__ = [
    "MAX_INFLATED_BYTES",
    "BrokerMemberGroup",
    "RegisterBody",
    "TopicList",
    "body_crc32",
    "check_crc32",
    "decode_broker_member_group",
    "decode_cluster_info",
    "decode_data_version",
    "decode_kv_table",
    "decode_mapping",
    "decode_register_body",
    "decode_route",
    "decode_topic_config_wrapper",
    "decode_topic_list",
    "encode_broker_member_group",
    "encode_cluster_info",
    "encode_data_version",
    "encode_kv_table",
    "encode_mapping",
    "encode_register_body",
    "encode_route",
    "encode_topic_list",
]
