"""Checks a commit's message, as the hook commit-msg of pre-commit: a subject of at most 72 characters, and a body."""

from __future__ import annotations

import sys
from pathlib import Path

MOST_SUBJECT = 72
GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ")


def faults(message: str) -> list[str]:
    """What is wrong with a message, in words; git leaves out lines that begin with #."""
    lines = [line.rstrip() for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        return ["the message is empty: say in the subject what changed, and in the body why"]
    subject, rest = lines[0], lines[1:]
    found = []
    if len(subject) > MOST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters, at most {MOST_SUBJECT} are allowed: {subject}")
    if rest and rest[0]:
        found.append("a blank line is missing between the subject and the body")
    if not any(rest) and not subject.startswith(GENERATED):
        found.append("there is no body: say why, in at least one sentence below a blank line")
    return found


if __name__ == "__main__":
    wrong = faults(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for fault in wrong:
        print(fault, file=sys.stderr)
    sys.exit(bool(wrong))
