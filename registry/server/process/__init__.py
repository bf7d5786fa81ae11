"""The processes of a front end: the supervisor, its workers, the port they share."""
