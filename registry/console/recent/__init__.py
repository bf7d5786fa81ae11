"""Data of the last hours from the streams, read once and then kept up to date."""
