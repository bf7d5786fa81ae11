"""Where ours differs from the Java NameServer on purpose, and how narrowly each difference is kept out of the way.

D1 to D24 are rows of docs/differences.md.
`run.py` and `steps.py` name these keys where they step aside.
"""

DELIBERATE = {
    "D1": "a zlib body with compressed=false: never drawn",
    "D2": "a close of a connection with two live brokers: not sent (Java removes one of them, by hash order)",
    "D3": "a close of a broker whose cluster is not that of its row: not sent (Java removes nothing, for ever)",
    "D3.1": (
        "a close of an address that stands under two brokerNames, or in a row without live info: not sent (Java "
        "removes it from one name, by hash order, or from none; the rest stays for ever, for nothing is left that "
        "could expire)"
    ),
    "D3 two clusters": (
        "a close of an address that is alive under two clusters, or was until its 104 with another brokerName left "
        "it in its row: not sent (Java takes it from any row of the closed one's cluster, also from one where the "
        "other stands)"
    ),
    "D3.2": (
        "a close of a broker whose id another address took: not sent (Java keeps its live info for 120 s although "
        "nobody is there; only 322 shows it)"
    ),
    "D4 cluster": (
        "104 that hits a name which stands in other clusters too: Java is sent a second 104, for the live info "
        "under those clusters (it would stay for 120 s)"
    ),
    "D4 ghosts": (
        "a name that a removal left behind in a cluster set of Java, without a row: taken out of 106, 304 and 224 "
        "of that cluster alone; 216 in that cluster is not sent while the name lives elsewhere"
    ),
    "D5": "104 and closes are queued in Java: what follows waits until a fence, sent behind them, had its effect",
    "D8": "4.8 never answers a code that it does not know: ours must answer 3",
    "D5.1": (
        "104 (5.x) without brokerName or a readable brokerId: Java forgets the live info before it trips over it, "
        "so that the row can never expire; ours does nothing. Not sent for a live broker"
    ),
    "D7 address": "304's brokerAddr: any address that the same server lists in 106",
    "D7 flags": "311-313: a topic whose brokers disagree on topicSysFlag may be listed or not",
    "D7 filters": (
        "a route's filterServerTable has one entry for an address; where this stands in rows of two clusters, "
        "either one's list is right (in Java the last by hash order, also when that has none)"
    ),
    "D9 KV": "100 without namespace or key: 4.8 stores it under null; ours refuses it, as 5.x. Not sent to 4.8",
    "D9": "empty or missing clusterName, brokerName, brokerAddr in 103, topic in 217 that names queues: never drawn",
    "D16": (
        "a refused one-topic registration: the empty row that it leaves in Java is removed there by 104; not sent "
        "where Java would have changed an existing row all the same"
    ),
    "D16.1": (
        "a registration refused for its stateVersion: Java changes enableActingMaster and zoneName of the row all "
        "the same, and takes the address from any other id; ours stores nothing. Sent only where nothing of this "
        "differs"
    ),
    "null wrapper": (
        "an explicit null topicConfigSerializeWrapper for an id that another address holds: in Java 5.x it depends on "
        "that one's live info whether it trips; ours never stores it. 4.8 trips over each one, after it has put the "
        "address into the row, where no expiry ever finds it. Not sent, for no peer writes it"
    ),
    "null version": (
        'an explicit "dataVersion":null is read as an absent one; Java answers 0, keeps the broker without a '
        "version and answers 322 as if it did not know it: never drawn, for no peer writes it"
    ),
    "D33": (
        "a registration that is not the last one again, with its DataVersion, and tells other queue data or another "
        "enableActingMaster, or takes an id back: not sent (Java leaves queue data that is there alone)"
    ),
    "D35": "322 with another broker id than its address has in the row: not sent (Java looks at the version alone)",
    "clock": "a data version that the server made up: its timestamp, when it is that of the clock",
}
