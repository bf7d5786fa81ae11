"""The hook for commit messages: what passes, and what is said of what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def check(tmp_path, message):
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message)
    done = subprocess.run([sys.executable, ROOT / ".ci/commit_message.py", file], capture_output=True, text=True)
    assert done.returncode == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    "message",
    ["What changed\n\nWhy it did.\n# a comment of git\n", 'Revert "What changed"\n', f"{'x' * 72}\n\nWhy.\n"],
)
def test_a_subject_and_a_body_pass(tmp_path, message):
    assert check(tmp_path, message) == ""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("What changed\n", "there is no body"),
        ("What changed\n\n# only a comment\n", "there is no body"),
        (f"{'x' * 73}\n\nWhy.\n", "the subject has 73 characters, at most 72 are allowed"),
        ("What changed\nWhy.\n", "a blank line is missing"),
        ("# nothing\n", "the message is empty"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, message, said):
    assert said in check(tmp_path, message)


def test_pre_commit_installs_it():
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "default_install_hook_types: [pre-commit, commit-msg]" in config
    assert "entry: .venv/bin/python .ci/commit_message.py" in config
