"""Says which extra to install when a command cannot import a package."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ..errors import StartError


@contextlib.contextmanager
def extra(extra_name: str) -> Iterator[None]:
    """Context for imports of an extra's packages: if one is missing, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "mqregistry" or name in sys.stdlib_module_names:
            raise
        raise StartError(f"this command needs {name}: pip install 'mqregistry[{extra_name}]'") from error
