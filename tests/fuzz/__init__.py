"""Bytes that nobody should send, made from those that real peers did."""
