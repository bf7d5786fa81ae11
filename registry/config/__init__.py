"""The settings of a process: one table, and where each value comes from."""
