"""Spark: the session, its Java, and the errors that come out of it."""
