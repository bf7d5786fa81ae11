"""Opens clients of one Redis, of Sentinel and of Redis Cluster by a URL, and turns their errors into ours."""
