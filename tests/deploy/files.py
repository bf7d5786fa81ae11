"""The files of deploy/, and the command lines that stand in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def text(name: str) -> str:
    return (DEPLOY / name).read_text(encoding="utf-8")


def units() -> list[Path]:
    return sorted((DEPLOY / "systemd").glob("*.service"))


def environment(name: str = "mqregistry.env") -> dict[str, str]:
    """An environment file, as Docker and systemd read it (quotes and continuations are not used)."""
    lines = [line for line in text(name).splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def compose() -> dict[str, Any]:
    return yaml.safe_load(text("compose.yaml"))


def password(user: str) -> str:
    """What tests choose for a user of users.acl."""
    return f"chosen-for-{user}"


def acl_text(name: str = "users.acl") -> str:
    """An ACL file with the passwords of the tests."""
    return re.sub(r"#password-of-(\w+)", lambda match: ">" + password(match[1]), text(name))


def acl_users(name: str = "users.acl") -> dict[str, list[str]]:
    """User -> rules, with the passwords of the tests."""
    return {line.split()[1]: line.split()[2:] for line in acl_text(name).splitlines()}


def login(server: Any, user: str) -> str:
    """The URL with which this user logs in."""
    return f"redis://{user}:{password(user)}@{server.address}"


def granted(user: str, name: str = "users.acl") -> set[str]:
    return {rule[1:] for rule in acl_users(name)[user] if rule.startswith("+")}


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, the rest), continuations joined and comments left out."""
    lines = [line for line in text("Dockerfile").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage of the Dockerfile."""
    found: list[list[tuple[str, str]]] = []
    for word, rest in dockerfile():
        if word == "FROM":
            found.append([])
        if found:  # what is before the first stage is an ARG for all
            found[-1].append((word, rest))
    return found


def command_lines() -> list[tuple[str, list[str]]]:
    """(where, arguments after ``mqregistry``) of every command line of ours in deploy/."""
    found = []
    for unit in units():
        for line in re.findall(r"^ExecStart=\S*/mqregistry (.*)$", unit.read_text(), re.M):
            found.append((unit.name, shlex.split(line.replace("%i", "9876"))))
    for name, service in compose()["services"].items():
        if service.get("image") == "mqregistry":
            found.append((f"compose.yaml {name}", list(service["command"])))
    found += [("Dockerfile", re.findall(r'"([^"]+)"', rest)) for word, rest in dockerfile() if word == "CMD"]
    for block in re.findall(r"```sh\n(.*?)```", text("README.md"), re.S):
        for line in re.findall(r"^(?:\w+=\S+ )*mqregistry (.*)$", block, re.M):
            found.append(("README.md", shlex.split(line, comments=True)))
    return found
