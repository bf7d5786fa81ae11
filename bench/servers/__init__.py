"""Starts the measured servers. Tests use its parts, too: child processes, Redis servers, RocketMQ's jars."""
