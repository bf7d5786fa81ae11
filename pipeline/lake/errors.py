"""What goes wrong with a lake."""

from __future__ import annotations

from mqregistry.errors import RegistryError


class LakeError(RegistryError):
    """The lake lacks what is asked of it, or what it holds contradicts itself; the message says what to do."""


class OtherWriter(RegistryError):
    """Another application writes to this lake; this one has written nothing."""
