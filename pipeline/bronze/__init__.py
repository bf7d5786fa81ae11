"""Bronze: every entry of the streams as it was, and the snapshots with which a past begins."""
