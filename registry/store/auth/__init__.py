"""Users, rules and secrets in Redis, and what was refused."""
