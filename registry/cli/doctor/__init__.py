"""Looks at Redis, this machine and the fleet for what does not fit, and says what to do."""
