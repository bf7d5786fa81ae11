"""The differences between name servers, registries and past states, and their age. Pure: others ask the sides."""
