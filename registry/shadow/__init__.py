"""Passes connections through to a Java NameServer, repeats its clients' reads at ours, and compares both answers."""
