"""Compares this registry with the Java NameServer under the same load, in interleaved rounds, and judges bars."""
