"""Pages for a browser on the tables of one namespace: now, in the past, and who changed them. A separate process."""
