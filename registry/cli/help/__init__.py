"""What to do about an error: the entries of docs/howto/troubleshooting.md, which is also a file of the wheel."""
