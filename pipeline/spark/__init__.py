"""Starts Spark with its Java and Delta's jars, turns its errors into ours, and locks a lake."""
