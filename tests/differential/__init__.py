"""The Java NameServer and ours, driven with the same random operations: see README.md."""
