"""The errors that readers and writers of a lake raise."""

from __future__ import annotations

from mqregistry.errors import RegistryError


class LakeError(RegistryError):
    """The lake lacks the requested data, or its data contradict each other; the message says what to do."""


class OtherWriter(RegistryError):
    """Another application writes to this lake; this one has written nothing."""
