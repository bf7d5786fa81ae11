"""Says how to install what a command of the pipeline needs, when it is not installed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ...errors import StartError


@contextlib.contextmanager
def spark_extra() -> Iterator[None]:
    """Around imports of what the extra ``spark`` brings: says how to get it when it is not here."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name == "mqregistry" or name in sys.stdlib_module_names:
            raise
        raise StartError(f"this command needs {name}: pip install 'mqregistry[spark]'") from error
