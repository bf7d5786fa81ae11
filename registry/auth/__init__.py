"""Who may do what at the name server: users, rights, and the decision on one request. Pure: no I/O, no clock."""
