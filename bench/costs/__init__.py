"""Measures the CPU time and the memory of a lookup, a script and a registration, by process and by step."""
