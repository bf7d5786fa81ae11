"""What one lookup, script or registration costs: CPU time and memory, by process and by step."""
