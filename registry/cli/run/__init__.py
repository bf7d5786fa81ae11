"""Commands that run something: up, serve, sweep, demo."""
