"""Pages for a browser on the tables of one namespace: what is, what was, and who changed it. A process of its own."""
