"""What if brokers, hosts, zones or clusters had been lost: which topics would have had no queue, and for how long."""
