"""Commands that compare name servers, ours and Java's, by what they answer over the network."""
