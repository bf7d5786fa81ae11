"""The port of a front end, which its workers share: sockets, and connections that one process hands to another."""
