"""Several front ends that must be as one: spread over them in turn, over releases, over namespaces."""
