"""Where Spark finds the data source ``redis_stream`` by itself: it looks into every module whose name begins so.

It is installed as a module of its own, beside the package mqregistry, and brings no more of it than the source needs.
"""

from mqregistry.pipeline.redis_stream.data_source import RedisStreamSource as DefaultSource

__all__ = ["DefaultSource"]
