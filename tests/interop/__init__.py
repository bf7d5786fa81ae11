"""Real RocketMQ brokers, clients and NameServers against the name server under test; see README.md."""
