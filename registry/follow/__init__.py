"""Follows the change stream of a namespace: from a position on; a gap is reported."""
