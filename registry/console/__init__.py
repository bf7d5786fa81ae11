"""Shows the tables in a browser: now, in the past, and who changed them. Runs as a process of its own."""
