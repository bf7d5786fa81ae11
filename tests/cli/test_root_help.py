"""``mqregistry --help``: a whole line for each command, and no command is imported for it."""

from __future__ import annotations

import subprocess
import sys

from mqregistry.cli import _COMMANDS


def test_each_command_has_a_whole_line_also_at_80_columns(command):
    shown = command("--help", COLUMNS="80").stdout
    lines = dict(line.split(maxsplit=1) for line in shown.partition("Commands:\n")[2].splitlines())
    assert lines == {name: line for name, (_, line) in _COMMANDS.items()}
    assert max(map(len, shown.splitlines())) <= 100


def test_the_help_imports_no_command():
    code = (
        "import sys, mqregistry.cli as c\n"
        "c.cli.main(['--help'], standalone_mode=False)\n"
        "print(sorted(one for one in sys.modules if one.startswith('mqregistry.') and one.count('.') > 2))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
