"""Measures delays: of a start, a restart, a change on its way to all workers, a changed route on its way to clients."""
