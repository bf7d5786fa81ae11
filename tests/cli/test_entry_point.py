"""How the process of a command ends when it is interrupted, or cannot write."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

INTERRUPTED_AT_IMPORT = """
import os, runpy, signal, sys

class Interrupting:
    wanted = sys.argv.pop(1)

    @classmethod
    def find_spec(cls, name, path, target=None):
        if name == cls.wanted:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
runpy.run_module("mqregistry", run_name="__main__")
"""

NO_SPACE = "mqregistry: cannot write: No space left on device\nSee: mqregistry help file\n"


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("click", ["topics"]),
        ("mqregistry.cli.lazy_group", ["--help"]),
        ("mqregistry.cli.read.topics", ["topics"]),
        ("redis", ["topics", "--redis", "redis://127.0.0.1:1"]),
        ("mqregistry.cli.run.up", ["up"]),
    ],
)
def test_ctrl_c_while_modules_are_imported_ends_without_a_traceback(env, module, arguments):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT_IMPORT, module, *arguments], env=env, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode in (-signal.SIGINT, 130), "a shell reports both as 130"
    assert (done.stdout, done.stderr.strip()) == ("", "")


def test_the_console_script_is_the_function_that_ctrl_c_cannot_break():
    project = Path(__file__).parents[2] / "pyproject.toml"
    assert 'mqregistry = "mqregistry.__main__:main"' in project.read_text()


def test_ctrl_c_that_is_ignored_stays_ignored(env):
    ignored = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + INTERRUPTED_AT_IMPORT
    done = subprocess.run([sys.executable, "-c", ignored, "click", "--version"], env=env, capture_output=True,
                          text=True, check=False, timeout=60)  # fmt: skip
    assert (done.returncode, done.stdout[:10]) == (0, "mqregistry")


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "bash"], ["simulate", "--help"]])
def test_output_that_cannot_be_written_is_said_on_one_line(env, arguments):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "mqregistry", *arguments], env=env, stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr) == (1, NO_SPACE)


def test_a_table_that_cannot_be_written_is_said_on_one_line(env, run, bed, redis_url, namespace):
    run(bed.register())
    for command in ("topics", "brokers", "watch"):
        options = ["--from-start"] if command == "watch" else []
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "mqregistry", command, *options, "--redis", redis_url, "--namespace", namespace],
                env=env, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
            )  # fmt: skip
        assert (done.returncode, done.stderr) == (1, NO_SPACE)
