"""The processes of a registry: front ends with their workers, and sweepers."""
