"""Finds the two jars with which Spark reads and writes Delta tables, or has Spark fetch them.

They come from the first of these places that has them: the user's ``spark.jars`` or ``spark.jars.packages`` (from
``--conf`` or spark-submit); the folder of ``--jars`` or MQREGISTRY_DELTA_JARS; the default
folder of ``mqregistry pipeline jars``; Maven Central, from where Spark fetches them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mqregistry.errors import StartError

VARIABLE: Final = "MQREGISTRY_DELTA_JARS"
CENTRAL: Final = "https://repo1.maven.org/maven2"
_TIMEOUT_S: Final = 120
_NAMED: Final = ("spark.jars", "spark.jars.packages")


class Artifact(NamedTuple):
    """One jar of Maven Central, by its coordinates."""

    group: str
    name: str
    version: str
    sha256: str

    @property
    def coordinates(self) -> str:
        """The jar's name for Maven and ``spark.jars.packages``."""
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def file(self) -> str:
        """The name of the file in a folder of jars."""
        return f"{self.name}-{self.version}.jar"

    @property
    def url(self) -> str:
        """Where to fetch it from Maven Central."""
        return f"{CENTRAL}/{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.file}"


DELTA: Final = (
    Artifact(
        "io.delta", "delta-spark_4.2_2.13", "4.4.0", "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead"
    ),
    Artifact("io.delta", "delta-storage", "4.4.0", "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"),
)  # fmt: skip


def own_folder() -> Path:
    """The default folder of ``mqregistry pipeline jars``."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "mqregistry" / "jars"


def delta_settings(folder: str | None, config: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """The settings of Spark that bring Delta's jars, and a sentence for the user about a download (None: no download).

    Args:
        folder: of ``--jars``; None: MQREGISTRY_DELTA_JARS.
        config: the user's settings of Spark.

    Raises:
        StartError: the folder lacks a jar.
    """
    folder = folder or os.environ.get(VARIABLE) or None
    if folder is None and any("delta-spark" in config.get(name, "") for name in _NAMED):
        return {}, None
    where = Path(folder).expanduser() if folder else own_folder()
    lacking = [jar.file for jar in DELTA if not (where / jar.file).is_file()]
    if not lacking:
        found = [*filter(None, [config.get("spark.jars")]), *(str((where / jar.file).resolve()) for jar in DELTA)]
        return {"spark.jars": ",".join(found)}, None
    if folder:
        raise StartError(f"{where} lacks {' and '.join(lacking)}: 'mqregistry pipeline jars {folder}' fetches it")
    named = ", ".join(jar.coordinates for jar in DELTA)
    packages = [*filter(None, [config.get("spark.jars.packages")]), *(jar.coordinates for jar in DELTA)]
    return {"spark.jars.packages": ",".join(packages)}, (
        f"Spark takes {named} from its cache, or fetches them from Maven Central ({CENTRAL}); if this "
        "machine has no internet access, run 'mqregistry pipeline jars DIR' on another machine, and use --jars DIR here"
    )


def fetch(folder: Path) -> list[str]:
    """Fetch the jars that a folder lacks, with Maven if it is installed, else over HTTPS; returns their names.

    Raises:
        StartError: a jar cannot be fetched, or has a wrong SHA-256.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fetched = []
    for jar in DELTA:
        target = folder / jar.file
        if target.is_file() and _sha256(target) == jar.sha256:
            continue
        (_by_maven if shutil.which("mvn") else _by_https)(jar, folder)
        if _sha256(target) != jar.sha256:
            target.unlink()
            raise StartError(f"{jar.coordinates} has a wrong SHA-256; the file was deleted")
        fetched.append(jar.file)
    return fetched


def _by_maven(jar: Artifact, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={jar.coordinates}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (folder / jar.file).is_file():
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
        raise StartError(f"Maven could not fetch {jar.coordinates}: {said or f'status {done.returncode}'}")


def _by_https(jar: Artifact, folder: Path) -> None:
    part = folder / f"{jar.file}.part"
    try:
        with urllib.request.urlopen(jar.url, timeout=_TIMEOUT_S) as answer, part.open("wb") as out:
            shutil.copyfileobj(answer, out)
    except (urllib.error.URLError, OSError) as error:
        part.unlink(missing_ok=True)
        raise StartError(
            f"{jar.url} cannot be fetched: {error}; fetch it elsewhere, and put it into {folder}"
        ) from error
    part.rename(folder / jar.file)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
