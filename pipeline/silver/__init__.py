"""Silver: the registry's tables with the time for which each value held, made of bronze's changes."""
