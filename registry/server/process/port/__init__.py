"""The port of a front end, which its workers share: sockets, and connections that are passed to workers."""
