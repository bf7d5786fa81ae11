"""Commands that look at name servers from outside, ours and Java's: what they differ in, and what they answer."""
