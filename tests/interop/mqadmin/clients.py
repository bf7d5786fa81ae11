"""Stories of commands that look up a topic's route and then talk to its brokers about messages and clients."""

from .story import BEFORE_5, SINCE_5, Case, Story

NO_ROUTE = "No (topic )?route info"
# Every message is another: its id, when and where it was stored.
MESSAGE = (
    r"\b[0-9A-F]{32,56}\b",
    r"\d{4}-\d\d-\d\d[ T]?[\d:, .]*",
    r"(storeTimestamp|bornTimestamp|commitLogOffset|storeSize|bornHost|bodyCRC|queueOffset|MSG_REGION|CLUSTER)=[^,}]*",
    r"Offset: +\d+",
    r"(?<=@)\d+",
    r"^(Born|Store) Host: .*",
    r"/\S*/(msgbodys|bodymsgs)/\S*",
    r"^\d+\b.*\b(true|false)$",
)
RATES = (r"\d+\.\d+", r"\b\d+ms\b")
# Some broker of the topic tells; which one, and so the address that it sees, is left to chance.
CLIENT = (r"[\d.]+@\d+#\d+", r"127\.0\.0\.1:\d+")

STORIES = (
    Story(
        "messages are sent and found",
        (
            Case("updateTopic -b {other} -t mail-{side} -r 1 -w 1", "create topic to {other} success", writes=True),
            Case(
                "sendMessage -t mail-{side} -b {other_name} -i 0 -p hello -k key-{side} -c tag",
                r"^{other_name} +0 +SEND_OK",
                hide=MESSAGE,
                keep=r"SEND_OK +(?P<id>[0-9A-F]{32,56})",
            ),
            Case("sendMessage -t made-{side} -b {other_name} -i 0 -p hello", r"SEND_OK", hide=MESSAGE, writes=True),
            Case("topicStatus -t mail-{side}", r"^{other_name} +0 +0 +1 ", hide=(*MESSAGE, *RATES)),
            Case("queryMsgByKey -t mail-{side} -k key-{side}", r"^{id} ", hide=MESSAGE, waits=True),
            Case("queryMsgByUniqueKey -t mail-{side} -i {id}", r"^Queue Offset: +0", hide=MESSAGE),
            Case("queryMsgById -t mail-{side} -i {id}", r"^Queue Offset: +0", hide=MESSAGE, releases=SINCE_5),
            Case(
                "queryMsgByOffset -t mail-{side} -b {other_name} -i 0 -o 0",
                r"UNIQ_KEY={id}",
                hide=MESSAGE,
                keep=r"^OffsetID: +(?P<stored>[0-9A-F]+)",
            ),
            Case("queryMsgById -i {stored}", r"^OffsetID: +{stored}", hide=MESSAGE, releases=BEFORE_5),
            Case(
                "queryMsgTraceById -i {id}",
                r"RMQ_SYS_TRACE_TOPIC\] not matched route info",
                hide=MESSAGE,
                releases=SINCE_5,
            ),
            Case(
                "QueryMsgTraceById -i {id}",
                r"RMQ_SYS_TRACE_TOPIC\] not matched route info",
                hide=MESSAGE,
                releases=BEFORE_5,
            ),
            Case("queryCq -t mail-{side} -q 0 -i 0 -b {other}", r"^idx: 0", hide=(*MESSAGE, r"[,=:] *-?\d+")),
            Case("queryCq -t mail-{side} -q 0 -i 0", r"^idx: 0", hide=(*MESSAGE, r"[,=:] *-?\d+")),
            Case("printMsg -t mail-{side} -d true", r"BODY: hello", hide=MESSAGE),
            Case("printMsgByQueue -t mail-{side} -a {other_name} -i 0 -p true -d true", r"BODY: hello", hide=MESSAGE),
            Case("consumeMessage -t mail-{side} -b {other_name} -i 0 -o 0 -c 1", r"BODY: hello", hide=MESSAGE),
            Case("checkMsgSendRT -t mail-{side} -a 3 -s 16", r"^Avg RT", hide=(r"\b\d+(\.\d+)?\b",)),
            Case("sendMsgStatus -b {other_name} -s 16 -c 2", r"SEND_OK", hide=(*MESSAGE, r"rt.\d+ms", r"queueId=\d+")),
        ),
    ),
    Story(
        "a producer and a consumer at work",
        (
            Case(
                "producerConnection -g group_steady_producer -t steady",
                r"JAVA",
                hide=CLIENT,
                waits=True,
            ),
            Case("producerConnection -g nosuch -t nosuch", r"Exception"),
            Case("consumerConnection -g group_steady", r"^steady +\*|Topic: steady ", hide=CLIENT, waits=True),
            Case(
                "consumerConnection -g group_steady -b {other}",
                r"^steady +\*|Topic: steady ",
                hide=CLIENT,
                waits=True,
                releases=SINCE_5,
            ),
            Case("consumerConnection -g nosuch", r"Exception"),
            Case(
                "consumerProgress -g group_steady",
                r"^steady +{broker_name} +0 .* 0 ",
                hide=(*MESSAGE, *RATES),
                waits=True,
            ),
            Case("consumerProgress -g group_steady -s true", r"^steady +{broker_name} +0 ", hide=(*MESSAGE, *RATES)),
            Case(
                "consumerProgress -g group_steady -t steady",
                r"^steady +{other_name} ",
                hide=(*MESSAGE, *RATES),
                releases=SINCE_5,
            ),
            Case("consumerProgress", r"^group_steady +1 ", hide=RATES),
            Case("consumerStatus -g group_steady", r"^Rebalance OK", hide=(r"\d{13}/",)),
            Case("brokerConsumeStats -b {other}", r"^steady +group_steady ", hide=(*MESSAGE, *RATES)),
            Case("statsAll -t steady", r"^steady +group_steady ", hide=(r" +[\d.]+\b",)),
            Case(
                "updateSubGroup -c {cluster} -g clone-{side} -s true", r"create subscription group to {other} success"
            ),
            Case("cloneGroupOffset -s group_steady -d clone-{side} -t steady -o true", r"clone group offset success"),
            Case(
                "skipAccumulatedMessage -g group_steady -t steady -f true",
                r"^{other_name} ",
                hide=(r"[\d.]+$",),
                releases=SINCE_5,
            ),
            Case(
                "resetOffsetByTime -g group_steady -t steady -s now -f true",
                r"^{other_name} ",
                hide=(r"[\d.]+$", r"timestamp.*"),
            ),
            Case("producer -b {other}", r"group_steady_producer", hide=(r"\d{13}", *CLIENT), releases=SINCE_5),
        ),
    ),
)
