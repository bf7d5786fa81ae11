"""Commands that copy all of a namespace into a file, and back."""
