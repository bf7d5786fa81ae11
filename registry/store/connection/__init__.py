"""Clients of one Redis, of Sentinel and of Redis Cluster: from a URL to a client, and from its errors to ours."""
