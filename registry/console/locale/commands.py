"""Adds ``--namespace`` to commands in sentences: a copied command then acts on the namespace of the page."""

from __future__ import annotations

import re
from gettext import NullTranslations
from typing import Final

from ...config.settings import options

_DEFAULT: Final = options()["namespace"].default
# The commands that take --namespace. They are listed, since the command line is not imported here.
_COMMAND: Final = re.compile(
    r"mqregistry (?:up|serve|sweep|console|clusters|brokers|topics|route|why|tables|front-ends|watch|audit|streams|"
    r"backup|restore|compare|top|doctor|(?:topic|kv|config|broker) [a-z]+|auth (?:(?:user|secret) )?[a-z]+|"
    r"pipeline (?!jars|maintain)[a-z-]+)(?![a-z-])( --namespace)?"
)


def in_namespace(text: str, namespace: str) -> str:
    """Add ``--namespace`` to each command in a text that takes it.

    Args:
        namespace: for the default namespace nothing is added; empty: NAMESPACE is added, for the reader to replace.
    """
    if namespace == _DEFAULT or "mqregistry " not in text:
        return text
    option = f" --namespace {namespace or 'NAMESPACE'}"
    return _COMMAND.sub(lambda found: found[0] if found[1] else found[0] + option, text)


class OfNamespace(NullTranslations):
    """The sentences of a language for the pages of a namespace."""

    def __init__(self, words: NullTranslations, namespace: str) -> None:
        super().__init__()
        self.add_fallback(words)
        self._namespace = namespace

    def gettext(self, message: str) -> str:
        """The translation of a sentence, with the namespace in its commands."""
        return in_namespace(super().gettext(message), self._namespace)

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        """The translation in the form that fits a number, with the namespace in its commands."""
        return in_namespace(super().ngettext(msgid1, msgid2, n), self._namespace)
