"""For brokers and applications: speaking to name servers."""
