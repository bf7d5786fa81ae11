"""Commands that run something: name servers, sweepers, the console, test brokers, simulations, probes."""
