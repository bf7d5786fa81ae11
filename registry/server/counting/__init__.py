"""Counters and timers of a worker for requests and connections; they cost lookups next to nothing."""
