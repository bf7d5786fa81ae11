"""What a worker counts and times of its requests and connections, so that doing so costs lookups nothing."""
