"""Shows the state of the registry in a terminal: ``mqregistry top``."""
