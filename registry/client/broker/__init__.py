"""Registers brokers at name servers, or in the registry's Redis, and keeps them registered."""
