"""What to do about an error: the entries of docs/howto/troubleshooting.md, which the wheel has, too."""
