"""Who sends a request, whether the rules allow it, and how refusals are reported."""
