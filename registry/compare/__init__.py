"""Compares name servers, registries and past states, and notes since when they differ. Pure: callers read the sides."""
