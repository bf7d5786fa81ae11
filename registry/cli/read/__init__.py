"""Commands that show the tables, their changes and their streams."""
