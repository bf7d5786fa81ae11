"""Authentication: users, their rights, and the decision on one request. Pure: no I/O, no clock."""
