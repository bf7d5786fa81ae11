"""Answers which topics would have had no queue, and for how long, after a loss of brokers, hosts, zones or clusters."""
