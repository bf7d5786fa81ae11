"""Stories of commands that find the brokers of a cluster through a name server, and then ask these."""

from .story import BEFORE_5, SINCE_5, SINCE_5_5, Case, Story, allocation, json_text

FAILED = "command failed"
NO_ROUTE = r"CODE: 17  DESC: No topic route info in name server for the topic: nosuch"
NO_CLUSTER = "the specified clusterName exists or the name server connected to is correct"
# What a broker measures goes on between the two commands.
MEASURED = (r"\d+\.\d+( \d+\.\d+)*", r"\b\d+ (days|hours|minutes|seconds)", r"\d+\(\d+(\.\d+)?w.*\)")
NEW_MAPPING = r"new mapping data is written to file .*\.after$"
MAPPING_FILE = (r"/\S+\d{13}",)

EXPORT_TIME = (r'"exportTime":\d+',)

STORIES = (
    Story(
        "clusters are listed",
        (
            Case("clusterList", r"^{cluster} +{broker_name} +1 +{slave}", hide=(r" +\d+\.\d+\(.*",)),
            Case("clusterList -m", r"^{cluster} +{other_name} "),
            Case(
                "clusterList -c {cluster}",
                r"^{cluster} +{other_name} +0 +{other}",
                hide=(r" +\d+\.\d+\(.*",),
                releases=SINCE_5,
            ),
            Case("clusterList -c nosuch", r"^#Cluster Name|Exception", releases=SINCE_5),
        ),
    ),
    Story(
        "brokers of a cluster are asked",
        (
            Case("brokerStatus -c {cluster}", r"^{other} +brokerVersionDesc ", hide=(r" *: .*",)),
            Case("brokerStatus -c nosuch", NO_CLUSTER),
            Case("getBrokerConfig -c {cluster}", r"^=+.*{slave}=+$"),
            Case("getBrokerConfig -c nosuch", NO_CLUSTER),
            Case(
                "updateBrokerConfig -c {cluster} -k maxMessageSize -v 4194305",
                r"^update broker config success, {other}",
            ),
            Case(
                "updateBrokerConfig -c {cluster} -a true -k maxMessageSize -v 4194305",
                r"^update broker config success, {slave}",
                releases=SINCE_5,
            ),
            Case("updateBrokerConfig -c nosuch -k maxMessageSize -v 4194305", NO_CLUSTER),
            Case("cleanExpiredCQ -c {cluster}", r"success"),
            Case("cleanExpiredCQ -c nosuch", r"^false"),
            Case("cleanExpiredCQ", r"success"),
            Case("cleanUnusedTopic -c {cluster}", r"success", releases=SINCE_5),
            Case("cleanUnusedTopic", r"success", releases=SINCE_5),
            # It asks the name server what is for brokers. Java never answers that in 4.8.0, ours does (code 3).
            Case("cleanUnusedTopic", FAILED, hide=(r"^Caused by: .*(\nFor more .*)?",), releases=BEFORE_5),
            Case("deleteExpiredCommitLog -c {cluster}", r"success", releases=SINCE_5),
            Case("haStatus -c {cluster}", r"{master}", hide=MEASURED, releases=SINCE_5),
            Case("haStatus -c nosuch", NO_CLUSTER, releases=SINCE_5),
            Case("getBrokerEpoch -c {cluster}", r"only for controllerMode", releases=SINCE_5),
            Case("getBrokerEpoch -b {broker_name}", r"only for controllerMode", releases=SINCE_5),
            Case("getBrokerEpoch -b nosuch", r"^$", releases=SINCE_5),
            Case("getColdDataFlowCtrInfo -c {cluster}", r"{slave}", releases=SINCE_5),
            Case("updateColdDataFlowCtrGroupConfig -c {cluster} -g group-{side} -v 100", r"success", releases=SINCE_5),
            Case("removeColdDataFlowCtrGroupConfig -c {cluster} -g group-{side}", r"success", releases=SINCE_5),
            Case("setCommitLogReadAheadMode -c {cluster} -m 0", r"{other}", releases=SINCE_5),
            Case("rocksDBConfigToJson -t topics -c {cluster}", r"broker export done", releases=SINCE_5),
            Case(
                "checkRocksdbCqWriteProgress -c {cluster} -t {cluster}", r"^{other_name} check doing", releases=SINCE_5
            ),
            Case("exportPopRecord -c {cluster} -d true", r"brokerAddr={slave}", releases=SINCE_5),
            Case("switchTimerEngine -c {cluster} -e F", r"success, {other}", releases=SINCE_5_5),
            Case("getBrokerLiteInfo -c {cluster}", r"^{other} +default ", releases=SINCE_5_5),
            Case("getParentTopicInfo -p nosuch", NO_ROUTE, releases=SINCE_5_5),
            Case("getLiteTopicInfo -p nosuch -l lite", NO_ROUTE, releases=SINCE_5_5),
            Case("getLiteClientInfo -p nosuch -g group -c client", NO_ROUTE, releases=SINCE_5_5),
            Case("getLiteGroupInfo -p nosuch -g group", NO_ROUTE, releases=SINCE_5_5),
            Case("triggerLiteDispatch -p nosuch -g group -b {broker_name}", NO_ROUTE, releases=SINCE_5_5),
        ),
    ),
    Story(
        "users and access lists of a cluster",
        (
            Case(
                "createUser -c {cluster} -u user-{side} -p secret", r"create user to {other} success", releases=SINCE_5
            ),
            Case(
                "updateUser -c {cluster} -u user-{side} -p other", r"update user to {slave} success", releases=SINCE_5
            ),
            Case("getUser -c {cluster} -u user-{side}", r"^user-SIDE +other ", releases=SINCE_5),
            Case("listUser -c {cluster}", r"^user-SIDE +other ", releases=SINCE_5),
            Case(
                "createAcl -c {cluster} -s User:user-{side} -r Topic:t -a Pub -d Allow",
                r"create acl to {other} success",
                releases=SINCE_5,
            ),
            Case(
                "updateAcl -c {cluster} -s User:user-{side} -r Topic:t -a Sub -d Allow",
                r"update acl to {slave} success",
                releases=SINCE_5,
            ),
            Case("getAcl -c {cluster} -s User:user-{side}", r"^User:user-SIDE .*Sub", releases=SINCE_5),
            Case("listAcl -c {cluster}", r"^User:user-SIDE .*Sub", releases=SINCE_5),
            Case("deleteAcl -c {cluster} -s User:user-{side}", r"delete acl to {slave} success", releases=SINCE_5),
            Case("deleteUser -c {cluster} -u user-{side}", r"delete user to {slave} success", releases=SINCE_5),
            # Brokers of 4.8.0 do not answer these unless aclEnable is set.
            Case(
                "updateAclConfig -c {cluster} -a user-{side} -s secret12",
                FAILED,
                hide=(r"timeout, \d+",),
                releases=BEFORE_5,
            ),
            Case("clusterAclConfigVersion -c {cluster}", FAILED, hide=(r"timeout, \d+",), releases=BEFORE_5),
            Case("getAccessConfigSubCommand -c {cluster}", FAILED, hide=(r"timeout, \d+",), releases=BEFORE_5),
            Case("updateGlobalWhiteAddr -c {cluster} -g 10.0.0.1", FAILED, hide=(r"timeout, \d+",), releases=BEFORE_5),
            Case("deleteAccessConfig -c {cluster} -a user-{side}", FAILED, hide=(r"timeout, \d+",), releases=BEFORE_5),
        ),
    ),
    Story(
        "subscription groups of a cluster",
        (
            Case(
                "updateSubGroup -c {cluster} -g group-{side} -s true", r"create subscription group to {other} success"
            ),
            Case("updateSubGroup -c nosuch -g group-{side} -s true", NO_CLUSTER),
            Case("getConsumerConfig -g group-{side}", r"^groupName += +group-SIDE", releases=SINCE_5),
            Case("getConsumerConfig -g nosuch", r"^$", releases=SINCE_5),
            Case("setConsumeMode -c {cluster} -t {cluster} -g group-{side} -m POP -q 8", r"success", releases=SINCE_5),
            Case("updateSubGroupList -c {cluster} -f {files}/groups-{side}.json", r"success", releases=SINCE_5),
            Case("updateSubGroup -c {cluster} -g shared -s true", r"create subscription group to {other} success"),
            Case(
                "deleteSubGroup -c {cluster} -g shared",
                r"delete subscription group \[shared\] from broker \[{other}\]",
                writes=True,
            ),
            Case("deleteSubGroup -b {other} -g shared", r"delete subscription group"),
        ),
    ),
    # Before there are static topics: exportMetadata of 5.5.0 cannot read what its brokers write of these.
    Story(
        "a cluster is exported",
        (
            Case(
                "exportMetadata -c {cluster} -f {files}/{side}",
                r"success",
                hide=EXPORT_TIME,
                file="metadata.json",
                releases=SINCE_5,
            ),
            Case(
                "exportMetadata -c {cluster} -t -f {files}/{side}",
                r"success",
                hide=EXPORT_TIME,
                file="topic.json",
                releases=SINCE_5,
            ),
            Case(
                "exportMetadata -c {cluster} -g -f {files}/{side}",
                r"success",
                hide=EXPORT_TIME,
                file="subscriptionGroup.json",
                releases=SINCE_5,
            ),
            Case(
                "exportConfigs -c {cluster} -f {files}/{side}",
                r'"{other_name}"',
                hide=EXPORT_TIME,
                file="configs.json",
                releases=SINCE_5,
            ),
            Case(
                "exportMetrics -c {cluster} -f {files}/{side}",
                r'"{other_name}"',
                hide=EXPORT_TIME,
                file="metrics.json",
                releases=SINCE_5,
            ),
        ),
    ),
    Story(
        "static topics",
        (
            Case(
                "updateStaticTopic -c {cluster} -t static{side} -qn 4",
                NEW_MAPPING,
                hide=MAPPING_FILE,
                writes=True,
                releases=SINCE_5,
            ),
            Case("topicRoute -t staticeast", r'"topicQueueMappingByBroker"', json_text, releases=SINCE_5),
            Case("topicStatus -t staticwest", r"__syslo__", releases=SINCE_5),
            Case(
                "remappingStaticTopic -b {other_name} -t static{side}",
                r"\.after$",
                hide=MAPPING_FILE,
                writes=True,
                releases=SINCE_5,
            ),
            Case("topicRoute -t staticwest", r'"currIdMap":\{{\}}', json_text, releases=SINCE_5),
            Case(
                "updateStaticTopic -b {broker_name},{other_name} -t static{side} -qn 6",
                NEW_MAPPING,
                hide=MAPPING_FILE,
                writes=True,
                releases=SINCE_5,
            ),
            Case("topicRoute -t staticeast", r'"topicQueueMappingByBroker"', json_text, releases=SINCE_5),
            Case("allocateMQ -t staticwest -i 10.0.0.1,10.0.0.2", r"__syslo__", allocation, releases=SINCE_5),
            Case("updateStaticTopic -c nosuch -t static-{side} -qn 4", r"Find none brokers", releases=SINCE_5),
        ),
    ),
    Story(
        "commands that need no name server ask none",
        (
            Case("brokerStatus -b {master}", r"^brokerVersionDesc ", hide=(r" *: .*",)),
            Case("getBrokerConfig -b {other}", r"^=+.*{other}=+$"),
            Case("resetMasterFlushOffset -b {master} -o 1", r"offset to 1 success", releases=SINCE_5),
            Case("addBroker -c {master} -b /nosuch", r"Exception", releases=SINCE_5),
            Case("removeBroker -c {master} -b {cluster}:{broker_name}:0", r"Exception", releases=SINCE_5),
            Case("copyUser -f {master} -t {other}", r"^$", releases=SINCE_5),
            Case("copyAcl -f {master} -t {other}", r"^$", releases=SINCE_5),
            Case("dumpCompactionLog -f /nosuch", r"file /nosuch not exist", releases=SINCE_5),
            Case("exportMetadataInRocksDB -p /nosuch -t topics", r"path is invalid", releases=SINCE_5),
        ),
    ),
)
