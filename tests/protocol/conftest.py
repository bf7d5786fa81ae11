import os

from hypothesis import settings

# A loaded machine is slow without being wrong; what must be fast has tests of its own.
settings.register_profile("protocol", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("protocol")
