"""Finds the routes of topics, follows their changes, and selects queues to send to."""
