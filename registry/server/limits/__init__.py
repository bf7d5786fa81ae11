"""Limits on connections and requests, per address and for all clients; settings say whether they only count."""
