"""The schema of the three streams: changes of the tables as events, heartbeats, lookups."""
