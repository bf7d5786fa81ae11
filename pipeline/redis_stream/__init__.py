"""``redis_stream``: a Redis stream as a Spark data source."""
