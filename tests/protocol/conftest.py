from hypothesis import settings

# A loaded machine is slow without being wrong; what must be fast has tests of its own.
settings.register_profile("protocol", deadline=None)
settings.load_profile("protocol")
