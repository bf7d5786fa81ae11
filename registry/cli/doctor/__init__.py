"""Checks Redis, this machine, front ends and sweepers, and says what to do about each fault."""
