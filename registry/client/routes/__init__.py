"""Finds out where topics are, follows the changes, and selects queues to send to."""
