"""What is published: one version, a wheel that the sdist gives, too, the same bytes twice, links that work."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes

import pytest

import mqregistry
from mqregistry.events.changes import SCHEMA_MAJOR, SCHEMA_MINOR

from .files import ROOT

BUILD = "import sys; from hatchling.build import build_{0}; build_{0}(sys.argv[1])"


def built(source, into, what):
    """Build an sdist or a wheel of a folder, as a release does."""
    into.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-c", BUILD.format(what), str(into)], cwd=source, check=True, timeout=100,
                   env={"SOURCE_DATE_EPOCH": "1790000000", "PATH": "/usr/bin:/bin"})  # fmt: skip
    (found,) = into.glob("*.whl" if what == "wheel" else "*.tar.gz")
    return found


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    return built(ROOT, tmp_path_factory.mktemp("sdist"), "sdist")


@pytest.fixture(scope="module")
def unpacked(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        links = [member.name for member in archive if member.issym()]
        assert [member.name for member in archive if not member.isfile() and not member.issym()] == []
        archive.extractall(folder, filter="data")  # refuses a link that leads out of it
    assert [name for name in links if not (folder / name).is_file()] == []  # of folders there is none
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_wheel_of_the_sdist_is_that_of_the_repository(wheel, unpacked):
    assert built(unpacked, unpacked.parent / "wheel", "wheel").read_bytes() == wheel.read_bytes()


def test_the_sdist_of_the_sdist_is_the_same(sdist, unpacked):
    """So nothing in it depends on when, where and from what it was built."""
    assert built(unpacked, unpacked.parent / "sdist", "sdist").read_bytes() == sdist.read_bytes()


def test_the_version_is_written_once(wheel, unpacked):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        assert message_from_bytes(archive.read(name))["Version"] == mqregistry.__version__
    assert unpacked.name == f"mqregistry-{mqregistry.__version__}"
    pyproject = (ROOT / "pyproject.toml").read_text()
    assert not re.search(r"^version *=", pyproject, re.M)
    assert set(re.findall(r"dist/(mqregistry-[^\[']+)", (ROOT / "README.md").read_text())) == {wheel.name}
    newest = re.search(r"^## (\S+)$.*?schema (\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M | re.S)
    assert newest.groups() == (mqregistry.__version__, f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}")


def test_a_package_index_shows_addresses_and_a_readme_whose_links_lead_there(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    address = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]["address"]
    urls = dict(one.split(", ") for one in metadata.get_all("Project-URL"))
    assert set(urls) == {"Homepage", "Documentation", "Changelog", "Source"}
    assert all(url.startswith(address) for url in urls.values())
    assert metadata["Description-Content-Type"] == "text/markdown"
    shown, kept = metadata.get_payload(), (ROOT / "README.md").read_text()
    targets, ours = (re.findall(r"\]\(([^)\s]+)\)", text) for text in (shown, kept))
    assert len(targets) == len(ours) > 20
    for target, our in zip(targets, ours, strict=True):
        if re.match(r"#|https?:", our):
            assert target == our
        else:
            assert (ROOT / our.partition("#")[0]).exists(), our
            assert re.fullmatch(rf"{re.escape(address)}/(blob|raw)/HEAD/{re.escape(our)}", target)
            assert ("/raw/" in target) == our.endswith((".svg", ".png"))


def test_nothing_of_this_machine_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if str(ROOT).encode() in archive.read(name)]


def test_make_makes_the_links_that_an_sdist_lacks(unpacked):
    links = {"src/mqregistry": "../registry", "registry/worker": "../worker", "registry/pipeline": "../pipeline",
             "registry/lua": "../lua"}  # fmt: skip
    assert {link for link in links if (unpacked / link).exists()} == set()
    subprocess.run(["make", *links], cwd=unpacked, check=True, stdout=subprocess.DEVNULL)
    assert {link: str((unpacked / link).readlink()) for link in links} == links
    assert (unpacked / "src" / "mqregistry" / "worker" / "sweeper.py").is_file()


def test_twine_finds_nothing_wrong(sdist, wheel):
    twine = shutil.which("twine") or ROOT / ".venv-release" / "bin" / "twine"
    if not shutil.which(twine):
        pytest.skip("no twine here: make release installs it into .venv-release, and checks with it")
    done = subprocess.run([twine, "check", "--strict", sdist, wheel], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
