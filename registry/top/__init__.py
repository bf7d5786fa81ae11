"""The registry at a glance, in a terminal: ``mqregistry top``."""
