"""All commands of mqadmin: what each asks of a name server, or why none of the stories runs it.

A release that comes with another command fails the test until somebody has put it here. The numbers are not only
said: a relay before each name server notes what really comes (`tap`).
"""

from dataclasses import dataclass

from .story import ALL, BEFORE_5, SINCE_5, SINCE_5_5

PUT_KV, GET_KV, DELETE_KV = 100, 101, 102
ROUTE, CLUSTERS = 105, 106
WIPE, TOPICS, DELETE_TOPIC = 205, 206, 216
UPDATE_CONFIG, GET_CONFIG, ADD_WRITE_PERM = 318, 319, 327
# Of brokers.
CLEAN_UNUSED_TOPIC = 316

CONTROLLER = "asks a controller, and no name server"


@dataclass(frozen=True)
class Command:
    asks: frozenset[int] = frozenset()
    """Codes of the requests that its cases make name servers see, all together."""
    before_5: frozenset[int] | None = None
    """The same for 4.8.0, where that differs."""
    skipped: str = ""
    """Why there is no case."""
    releases: tuple[str, ...] = ALL

    def asks_in(self, version: str) -> set[int]:
        return set(self.asks if self.before_5 is None or version not in BEFORE_5 else self.before_5)


def asks(*codes: int, before_5: set[int] | None = None, releases: tuple[str, ...] = ALL) -> Command:
    return Command(frozenset(codes), None if before_5 is None else frozenset(before_5), releases=releases)


def skipped(why: str, releases: tuple[str, ...] = ALL) -> Command:
    return Command(skipped=why, releases=releases)


COMMANDS: dict[str, Command] = {
    # the name server itself
    "updateKvConfig": asks(PUT_KV),
    "deleteKvConfig": asks(DELETE_KV),
    "updateOrderConf": asks(PUT_KV, GET_KV, DELETE_KV),
    "wipeWritePerm": asks(WIPE),
    "addWritePerm": asks(ADD_WRITE_PERM, releases=SINCE_5),
    "getNamesrvConfig": asks(GET_CONFIG),
    "updateNamesrvConfig": asks(UPDATE_CONFIG),
    # topics and their routes
    "topicList": asks(TOPICS, CLUSTERS, ROUTE),
    "topicRoute": asks(ROUTE),
    "topicClusterList": asks(ROUTE, CLUSTERS),
    "topicStatus": asks(ROUTE),
    "allocateMQ": asks(ROUTE),
    "statsAll": asks(TOPICS, ROUTE),
    "updateTopic": asks(CLUSTERS, PUT_KV, GET_KV),
    "updateTopicList": asks(CLUSTERS, releases=SINCE_5),
    "updateTopicPerm": asks(ROUTE, CLUSTERS),
    "deleteTopic": asks(CLUSTERS, DELETE_TOPIC),
    "updateStaticTopic": asks(CLUSTERS, releases=SINCE_5),
    "remappingStaticTopic": asks(CLUSTERS, releases=SINCE_5),
    # a cluster's brokers
    "clusterList": asks(CLUSTERS),
    "brokerStatus": asks(CLUSTERS),
    "getBrokerConfig": asks(CLUSTERS),
    "updateBrokerConfig": asks(CLUSTERS),
    "cleanExpiredCQ": asks(CLUSTERS),
    "cleanUnusedTopic": asks(CLUSTERS, before_5={CLEAN_UNUSED_TOPIC}),
    "deleteExpiredCommitLog": asks(CLUSTERS, releases=SINCE_5),
    "haStatus": asks(CLUSTERS, releases=SINCE_5),
    "getBrokerEpoch": asks(CLUSTERS, releases=SINCE_5),
    "getColdDataFlowCtrInfo": asks(CLUSTERS, releases=SINCE_5),
    "updateColdDataFlowCtrGroupConfig": asks(CLUSTERS, releases=SINCE_5),
    "removeColdDataFlowCtrGroupConfig": asks(CLUSTERS, releases=SINCE_5),
    "setCommitLogReadAheadMode": asks(CLUSTERS, releases=SINCE_5),
    "rocksDBConfigToJson": asks(CLUSTERS, releases=SINCE_5),
    "checkRocksdbCqWriteProgress": asks(CLUSTERS, releases=SINCE_5),
    "exportPopRecord": asks(CLUSTERS, releases=SINCE_5),
    "exportMetadata": asks(CLUSTERS, releases=SINCE_5),
    "exportConfigs": asks(CLUSTERS, releases=SINCE_5),
    "exportMetrics": asks(CLUSTERS, ROUTE, releases=SINCE_5),
    "switchTimerEngine": asks(CLUSTERS, releases=SINCE_5_5),
    "getBrokerLiteInfo": asks(CLUSTERS, releases=SINCE_5_5),
    "createUser": asks(CLUSTERS, releases=SINCE_5),
    "updateUser": asks(CLUSTERS, releases=SINCE_5),
    "deleteUser": asks(CLUSTERS, releases=SINCE_5),
    "getUser": asks(CLUSTERS, releases=SINCE_5),
    "listUser": asks(CLUSTERS, releases=SINCE_5),
    "createAcl": asks(CLUSTERS, releases=SINCE_5),
    "updateAcl": asks(CLUSTERS, releases=SINCE_5),
    "deleteAcl": asks(CLUSTERS, releases=SINCE_5),
    "getAcl": asks(CLUSTERS, releases=SINCE_5),
    "listAcl": asks(CLUSTERS, releases=SINCE_5),
    "updateAclConfig": asks(CLUSTERS, releases=BEFORE_5),
    "deleteAccessConfig": asks(CLUSTERS, releases=BEFORE_5),
    "clusterAclConfigVersion": asks(CLUSTERS, releases=BEFORE_5),
    "updateGlobalWhiteAddr": asks(CLUSTERS, releases=BEFORE_5),
    "getAccessConfigSubCommand": asks(CLUSTERS, releases=BEFORE_5),
    "updateSubGroup": asks(CLUSTERS),
    "updateSubGroupList": asks(CLUSTERS, releases=SINCE_5),
    "deleteSubGroup": asks(CLUSTERS, DELETE_TOPIC, DELETE_KV, before_5={CLUSTERS, DELETE_TOPIC}),
    "setConsumeMode": asks(CLUSTERS, releases=SINCE_5),
    "getConsumerConfig": asks(CLUSTERS, releases=SINCE_5),
    # light topics, which no broker here has
    "getParentTopicInfo": asks(ROUTE, releases=SINCE_5_5),
    "getLiteTopicInfo": asks(ROUTE, releases=SINCE_5_5),
    "getLiteClientInfo": asks(ROUTE, releases=SINCE_5_5),
    "getLiteGroupInfo": asks(ROUTE, releases=SINCE_5_5),
    "triggerLiteDispatch": asks(ROUTE, releases=SINCE_5_5),
    # messages and clients
    "sendMessage": asks(ROUTE),
    "queryMsgById": asks(ROUTE),
    "queryMsgByKey": asks(ROUTE),
    "queryMsgByUniqueKey": asks(ROUTE),
    "queryMsgByOffset": asks(ROUTE),
    "queryMsgTraceById": asks(ROUTE, releases=SINCE_5),
    "QueryMsgTraceById": asks(ROUTE, releases=BEFORE_5),
    "queryCq": asks(ROUTE),
    "printMsg": asks(ROUTE),
    "printMsgByQueue": asks(ROUTE),
    "consumeMessage": asks(ROUTE),
    "checkMsgSendRT": asks(ROUTE),
    "sendMsgStatus": asks(ROUTE),
    "producerConnection": asks(ROUTE),
    "consumerConnection": asks(ROUTE),
    "consumerProgress": asks(ROUTE, TOPICS),
    "consumerStatus": asks(ROUTE),
    "cloneGroupOffset": asks(ROUTE),
    "skipAccumulatedMessage": asks(ROUTE, releases=SINCE_5),
    "resetOffsetByTime": asks(ROUTE),
    # no name server, as their cases show
    "brokerConsumeStats": asks(),
    "producer": asks(releases=SINCE_5),
    "resetMasterFlushOffset": asks(releases=SINCE_5),
    "addBroker": asks(releases=SINCE_5),
    "removeBroker": asks(releases=SINCE_5),
    "copyUser": asks(releases=SINCE_5),
    "copyAcl": asks(releases=SINCE_5),
    "dumpCompactionLog": asks(releases=SINCE_5),
    "exportMetadataInRocksDB": asks(releases=SINCE_5),
    # not run
    "startMonitoring": skipped("runs for ever; asks what consumerProgress asks"),
    "clusterRT": skipped("runs for ever; asks what clusterList and sendMessage ask"),
    "getSyncStateSet": skipped(CONTROLLER, SINCE_5),
    "getControllerMetaData": skipped(CONTROLLER, SINCE_5),
    "getControllerConfig": skipped(CONTROLLER, SINCE_5),
    "updateControllerConfig": skipped(CONTROLLER, SINCE_5),
    "electMaster": skipped(CONTROLLER, SINCE_5),
    "cleanBrokerMetadata": skipped(CONTROLLER, SINCE_5),
}
