"""Bronze: every entry of the streams, unchanged, and the snapshots with which a past begins."""
