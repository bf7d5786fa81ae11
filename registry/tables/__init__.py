"""The route tables in memory, and decisions on them, without any I/O."""
