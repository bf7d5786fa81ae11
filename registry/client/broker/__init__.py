"""What a broker has inside it to be known at its name servers."""
