"""Follows the change stream of a namespace: from a place on, without a gap, or with one that is said."""
