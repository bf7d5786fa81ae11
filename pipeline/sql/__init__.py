"""Answers questions about the lake in SQL, with DuckDB, without Spark and Redis."""
