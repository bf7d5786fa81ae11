"""Connections: sockets, TLS, the PROXY protocol, frames, limits."""
