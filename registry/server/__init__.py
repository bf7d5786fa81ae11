"""The front end: connections, handlers, the view."""
