"""The only code that talks to Redis."""
