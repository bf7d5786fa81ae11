"""What the command line and the console have in common: words, times, and what a change would do."""
