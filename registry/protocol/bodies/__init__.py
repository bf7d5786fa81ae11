"""Decodes and encodes the bodies of requests and replies; each module says which ones."""
