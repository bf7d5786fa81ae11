"""Commands that change what Redis holds: topics, broker names, KV, the shared configuration."""
