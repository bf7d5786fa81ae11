"""Limits on connections and requests, per address and for all clients: always counted, refused if a setting says so."""
