"""Questions about the past: tables as of an instant, and the audit."""
