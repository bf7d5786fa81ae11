"""Checks Redis, this machine and the fleet, and says what to do about what does not fit."""
