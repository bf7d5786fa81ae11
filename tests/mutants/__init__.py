"""Reverse patches: each brings back a defect that was mended once, so that we know which test would notice it.

``patches/`` has one file for each thing that may come back. Run them with ``python -m tests.mutants`` (``--help`` says
more); tests/README.md says how to add one.
"""
