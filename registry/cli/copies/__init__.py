"""Commands that copy a whole namespace into a file, and back."""
