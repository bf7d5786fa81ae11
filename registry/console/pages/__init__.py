"""The handlers: one module for each page."""
