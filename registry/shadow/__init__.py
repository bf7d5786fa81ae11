"""Passes connections through to a Java NameServer, and asks ours what its clients read there: do both answer alike?"""
