"""What /metrics shows: the table of metrics, and where their values come from."""
