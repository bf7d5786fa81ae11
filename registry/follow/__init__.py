"""Follows the change stream of a namespace from a position on, and reports gaps."""
