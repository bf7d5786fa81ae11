"""mqadmin with two Java NameServers and with two front ends of ours, which have the same brokers registered.

`commands` is the table of all commands; `topics`, `name_server`, `clusters` and `clients` have the stories of them;
`site` is what the stories run on, and `run` compares.
"""
