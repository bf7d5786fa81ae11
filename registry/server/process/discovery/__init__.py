"""Tells others where the front ends are: clients and brokers, and Prometheus."""
