"""Who may do what: users, rights, rules, signatures, and the decision on a request. Pure, no I/O."""
