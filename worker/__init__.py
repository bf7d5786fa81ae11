"""Background work: the sweeper."""
