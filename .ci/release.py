"""Makes what is published, in ``dist/``: sdist, wheel, SBOM and checksums. ``make release`` runs it.

Everything is built again from the last commit, in another folder, and the wheel from the sdist, too: the bytes must be
equal. Their times are that of the commit (SOURCE_DATE_EPOCH), so whoever builds it again gets the same files.
"""

from __future__ import annotations

import filecmp
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
SBOM_EXTRAS = "embedded,console,top,yaml"
"""What the SBOM describes, in the versions of constraints.txt. The pipeline's extras (Spark, a JDK) are not in it."""
VENDORED = re.compile(r"^\| `(?P<file>[^`]+)` \| (?P<name>\S+) (?P<version>\S+), .*\| (?P<licence>\S+) \|$", re.M)


def main() -> None:
    """Build, check, describe."""
    if DIST.exists() and any(DIST.iterdir()):
        sys.exit("dist/ is not empty: move away, or remove, what is there")
    os.environ["SOURCE_DATE_EPOCH"] = git("log", "-1", "--format=%ct").decode().strip()
    build(ROOT, DIST)
    with tempfile.TemporaryDirectory() as folder:
        again, unpacked = Path(folder) / "again", Path(folder) / "unpacked"
        with tarfile.open(fileobj=io.BytesIO(git("archive", "HEAD"))) as commit:
            commit.extractall(again, filter="data")
        build(again, again / "dist")
        (sdist,) = DIST.glob("*.tar.gz")
        (wheel,) = DIST.glob("*.whl")
        with tarfile.open(sdist) as source:
            source.extractall(unpacked, filter="data")
        (source_folder,) = unpacked.iterdir()
        build(source_folder, source_folder / "dist", "--wheel")
        same(sdist, again / "dist" / sdist.name, "the last commit gives another sdist: is something not committed?")
        same(wheel, again / "dist" / wheel.name, "the last commit gives another wheel: is something not committed?")
        same(wheel, source_folder / "dist" / wheel.name, "the sdist gives another wheel than the repository")
        run("twine", "check", "--strict", sdist, wheel)
        _, version, _ = wheel.name.split("-", 2)
        if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
            sys.exit(f"CHANGELOG.md says nothing of {version}, the version in registry/__init__.py")
        describe(wheel, version, Path(folder) / "environment")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"mqregistry-{version}.dist-info/METADATA").decode()
    if ".example" in metadata:
        print("not to be uploaded yet: set the address of [tool.hatch.metadata.hooks.custom] in pyproject.toml")
    files = sorted(path for path in DIST.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (DIST / "SHA256SUMS").write_text(sums)
    print(sums, end="")


def git(*arguments: str) -> bytes:
    """What git says of the repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout


def run(module: str, *arguments: str | Path) -> None:
    """Run a module of the release tools."""
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)


def build(source: Path, into: Path, *what: str) -> None:
    """Build sdist and wheel, or ``what`` of them, of a folder, with the pinned tools."""
    run("build", "--no-isolation", *(what or ("--sdist", "--wheel")), "--outdir", into, source)


def same(one: Path, other: Path, otherwise: str) -> None:
    """End with a message if two files differ."""
    if not filecmp.cmp(one, other, shallow=False):
        sys.exit(f"{one.name}: {otherwise}")


def describe(wheel: Path, version: str, environment: Path) -> None:
    """Write the SBOM (CycloneDX) of an environment in which the wheel is installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    run("pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", "--constraint",
        ROOT / "constraints.txt", f"{wheel}[{SBOM_EXTRAS}]")  # fmt: skip
    file = DIST / f"mqregistry-{version}.cdx.json"
    run("cyclonedx_py", "environment", "--output-reproducible", "--pyproject", ROOT / "pyproject.toml", "-o", file,
        python)  # fmt: skip
    told = json.loads(file.read_text())
    told["metadata"]["component"] |= {"version": version, "purl": f"pkg:pypi/mqregistry@{version}"}
    told["components"] += [
        {
            "type": "library", "bom-ref": f"npm-{one['name']}", "name": one["name"], "version": one["version"],
            "purl": f"pkg:npm/{one['name']}@{one['version']}", "licenses": [{"license": {"id": one["licence"]}}],
            "description": f"mqregistry/console/static/{one['file']}",
        }
        for one in VENDORED.finditer((ROOT / "registry/console/static/VENDORED.md").read_text())
    ]  # fmt: skip
    file.write_text(json.dumps(told, indent=2, sort_keys=True) + "\n")


main()
