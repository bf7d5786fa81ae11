"""Commands that look at name servers from outside, ours and Java's: their differences, and their answers."""
