"""Measures what breaks first as brokers, topics, front ends and namespaces grow. There are no bars."""
