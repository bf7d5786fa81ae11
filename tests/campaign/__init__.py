"""A random schedule of faults against real processes, and what must hold at every moment and after healing."""
