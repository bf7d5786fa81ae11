"""Who sends a request, whether the rules allow it, and what is told of those that they do not."""
