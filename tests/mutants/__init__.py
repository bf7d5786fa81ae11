"""Reverse patches: each brings back a defect that was mended once, so that we know which test would notice it.

A mend of issue 13's parts A and B, and of issue 14, is kept in ``patches/`` as one file for each thing that may come
back. Run them with ``python -m tests.mutants`` (``--help`` says more); CONTRIBUTING says how to add one.
"""
