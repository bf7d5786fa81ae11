"""A RocketMQ name server with its route tables in Redis."""

__version__ = "0.1.0"
