"""Stories of topics and of their routes."""

from .story import SINCE_5, Case, Story, allocation, json_text

# What brokers count and measure goes on between the two commands.
RATES = (r" +\d+\.\d+",)
COUNTS = (r" +[\d.]+\b",)
NO_ROUTE = r"CODE: 17  DESC: No topic route info in name server for the topic: nosuch"

STORIES = (
    Story(
        "topics are made, changed and deleted",
        (
            Case(
                "updateTopic -c {cluster} -t plain-{side} -r 4 -w 4",
                r"^create topic to {other} success",
                writes=True,
            ),
            Case("topicRoute -t plain-{side}", r'"readQueueNums":4', json_text),
            Case("topicClusterList -t plain-{side}", r"^{cluster}$"),
            Case("updateTopic -c {cluster} -t plain-{side} -r 6 -w 5 -p 4", r"create topic to .* success", writes=True),
            Case("topicRoute -t plain-{side}", r'"perm":4', json_text),
            Case("updateTopicPerm -c {cluster} -t plain-{side} -p 6", r"update topic perm from 4 to 6 in", writes=True),
            Case("updateTopicPerm -b {master} -t plain-{side} -p 2", r"update topic perm from 6 to 2 in", writes=True),
            Case("topicRoute -t plain-{side} -l", r"^{cluster} +{broker_name} .* 2 *$", releases=SINCE_5),
            Case("updateTopicPerm -b {master} -t plain-{side} -p 2", r"new perm equals to the old one"),
            Case("updateTopic -c {cluster} -t units-{side} -u true -s true", r"topicSysFlag=3", writes=True),
            Case("topicRoute -t units-{side}", r'"topicSysFlag":3', json_text, releases=SINCE_5),
            Case("updateTopic -c nosuch -t plain-{side}", r"the specified clusterName exists"),
            Case(
                "updateTopicList -c {cluster} -f {files}/topics-{side}.json", r"success", writes=True, releases=SINCE_5
            ),
            Case("topicRoute -t listed-{side}", r'"writeQueueNums":3', json_text, releases=SINCE_5),
        ),
    ),
    # A deletion goes to the brokers and to the given name servers, so both sides have to delete the same topic.
    Story(
        "a topic is deleted",
        (
            Case("updateTopic -c {cluster} -t shared -r 3 -w 3", r"create topic to .* success", writes=True),
            Case("topicRoute -t shared", r'"readQueueNums":3', json_text),
            Case("deleteTopic -c {cluster} -t shared", r"delete topic \[shared\] from NameServer success", writes=True),
            Case("topicRoute -t shared", "No topic route info in name server for the topic: shared"),
            Case("deleteTopic -c {cluster} -t shared", r"delete topic \[shared\] from NameServer success", writes=True),
            Case("deleteTopic -c nosuch -t shared", "the specified clusterName exists"),
        ),
    ),
    Story(
        "topics with an order configuration",
        (
            Case(
                "updateTopic -c {cluster} -t ordered-{side} -r 2 -w 2 -o true",
                r"orderConf=\[(broker-[ab]:2;?){{2}}\]",
                writes=True,
            ),
            Case("updateOrderConf -t ordered-{side} -m get", r"orderConf=\[(broker-[ab]:2;?){{2}}\]"),
            Case(
                "updateTopic -b {master} -t partly-{side} -w 3 -o true", r"orderConf=\[{broker_name}:3\]", writes=True
            ),
            Case("updateTopic -b {other} -t partly-{side} -w 5 -o true", r"orderConf=\[{other_name}:5\]", writes=True),
            Case(
                "updateOrderConf -t partly-{side} -m get",
                r"{other_name}:5;{broker_name}:3|{broker_name}:3;{other_name}:5",
            ),
            Case("updateOrderConf -t partly-{side} -m put -v '{broker_name}:1'", r"update orderConf success"),
            Case("updateOrderConf -t partly-{side} -m get", r"orderConf=\[{broker_name}:1\]"),
            Case("updateOrderConf -t partly-{side} -m delete", r"delete orderConf success"),
            Case("updateOrderConf -t partly-{side} -m delete", r"delete orderConf success"),
            Case(
                "updateOrderConf -t partly-{side} -m get",
                r"CODE: 22  DESC: No config item, Namespace: ORDER_TOPIC_CONFIG",
            ),
        ),
    ),
    Story(
        "routes are looked up",
        (
            Case("topicList", r"^TBW102$"),
            # the broker that is asked for a topic's groups knows them once the consumer has told it how far it is
            Case("topicList -c", r"^{cluster} +steady +group_steady *$", waits=True),
            Case("topicRoute -t TBW102", r'"brokerName":"{other_name}"', json_text),
            Case("topicRoute -t TBW102 -l", r"^Total:", releases=SINCE_5),
            Case("topicRoute -t nosuch", NO_ROUTE),
            Case("topicClusterList -t TBW102", r"^{cluster}$"),
            Case("topicClusterList -t nosuch", NO_ROUTE),
            Case("topicStatus -t {cluster}", r"^{other_name} +15 ", hide=RATES),
            Case("topicStatus -t TBW102 -c {cluster}", r"^{other_name} +0 ", hide=RATES, releases=SINCE_5),
            Case("topicStatus -t nosuch", NO_ROUTE),
            Case("allocateMQ -t TBW102 -i 10.0.0.1,10.0.0.2,10.0.0.3", r"10\.0\.0\.3", allocation),
            Case("allocateMQ -t nosuch -i 10.0.0.1", NO_ROUTE),
            Case("statsAll", r"^TBW102 .* NO_CONSUMER", hide=COUNTS),
            Case("statsAll -a", r"^#Topic", hide=COUNTS),
            Case("statsAll -t TBW102", r"^TBW102 .* NO_CONSUMER", hide=COUNTS),
        ),
    ),
)
