"""The registry's past as tables: Redis streams through Spark into bronze, silver and gold (extra ``spark``)."""
