"""Passes connections through to a Java NameServer, repeats the clients' reads at ours, and compares both answers."""
