"""Measures the Spark pipeline: how fast streams become tables, and the driver's memory."""
