"""Commands that compare the answers of name servers, ours and Java's."""
