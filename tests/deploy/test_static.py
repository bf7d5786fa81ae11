"""deploy/ says nothing that the rest does not know."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess

import click
import pytest

from mqregistry.cli import cli
from mqregistry.config.properties import parse
from mqregistry.config.settings import options_by_key
from mqregistry.config.sources import build
from mqregistry.embedded import find_server
from mqregistry.errors import ConfigError
from mqregistry.store.connection.asyncio_client import open_client
from mqregistry.store.connection.url import parse_url

from .files import DEPLOY, ROOT, acl_users, command_lines, compose, dockerfile, environment, text, units
from .helm import CHART

# What redis-py and our reads send beside the scripts: the front ends' and sweepers', then the operators'.
CLIENT_COMMANDS = {
    "ping",
    "info",
    "select",
    "eval",
    "evalsha",
    "xread",
    "hgetall",
    "command",
    "cluster|slots",
    "asking",
}
OPERATOR_COMMANDS = CLIENT_COMMANDS | {"hget", "hlen", "zscore", "lrange", "sscan"}


@pytest.mark.parametrize(("where", "arguments"), command_lines(), ids=lambda value: str(value)[:40])
def test_command_line_is_understood(where, arguments):
    with cli.make_context("mqregistry", list(arguments)) as context:
        name, command, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
        with command.make_context(name, list(rest), parent=context) as parsed:
            if isinstance(command, click.Group):
                name, command, rest = command.resolve_command(parsed, [*parsed._protected_args, *parsed.args])
                parsed = command.make_context(name, list(rest), parent=parsed)
            assert not parsed.args, f"{where}: {parsed.args}"


def test_command_lines_are_found_and_a_wrong_one_would_be_noticed():
    assert {where.split()[0] for where, _ in command_lines()} == {
        "mqregistry-pipeline.service", "mqregistry-serve@.service", "mqregistry-sweep.service", "compose.yaml",
        "Dockerfile", "README.md",
    }  # fmt: skip
    with pytest.raises(click.UsageError):
        test_command_line_is_understood("here", ["serve", "--no-such-option"])


def test_environment_and_properties_are_known_and_valid(monkeypatch):
    monkeypatch.setenv("MQREGISTRY_REDIS_PASSWORD", "chosen")
    warnings: list[str] = []
    settings = build(config_file=DEPLOY / "namesrv.properties", environ=environment(), warn=warnings.append)
    assert warnings == []
    for entry in parse((DEPLOY / "namesrv.properties").read_bytes()):
        # an example shows the defaults, so that whoever copies it changes nothing
        assert getattr(settings, options_by_key()[entry.key].name) == options_by_key()[entry.key].default
    open_client(settings.redis, timeout_ms=100, max_connections=1)


def test_nothing_starts_before_passwords_are_chosen():
    rules = acl_users()
    assert environment()["MQREGISTRY_REDIS"].startswith("redis://mqregistry@")
    assert "off" in rules["default"]
    for name in ("users.acl", "users-7.acl"):
        for line in text(name).splitlines()[1:]:
            user, _, password, *_ = line.split()[1:]
            assert password == f"#password-of-{user}"  # Redis refuses it: no SHA-256
    with pytest.raises(ConfigError, match="the password is that of the example"):
        parse_url(environment()["MQREGISTRY_REDIS"], environment()["MQREGISTRY_REDIS_PASSWORD"])


def test_the_two_files_of_users_differ_in_one_right():
    lines, lines_7 = text("users.acl").splitlines(), text("users-7.acl").splitlines()
    assert lines[:-1] == lines_7[:-1]
    assert lines_7[-1] == lines[-1] + " (~mq:{*}:readers -@all +hset)"


def test_passwords_are_chosen_once(tmp_path):
    folder = tmp_path / "deploy"
    shutil.copytree(DEPLOY, folder)
    first = subprocess.run(["sh", folder / "passwords.sh"], capture_output=True, text=True, check=True)
    shown = dict(line.split(": ") for line in first.stdout.splitlines())
    assert shown.pop("mqregistry") == "in mqregistry.env"
    (chosen,) = re.findall(r"^MQREGISTRY_REDIS_PASSWORD=(\w{48})$", (folder / "mqregistry.env").read_text(), re.M)
    hashes = {
        user: hashlib.sha256(value.encode()).hexdigest() for user, value in {**shown, "mqregistry": chosen}.items()
    }
    for name in ("users.acl", "users-7.acl"):
        found = (folder / name).read_text()
        assert dict(re.findall(r"^user (\w+) on #(\w{64}) ", found, re.M)) == hashes
        assert re.sub(r"#\w{64}", "", found) == re.sub(r"#[\w-]+", "", text(name))
    assert (folder / "mqregistry.env").stat().st_mode & 0o777 == 0o600
    assert len({*hashes.values()}) == len(acl_users()) - 1
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = subprocess.run(["sh", folder / "passwords.sh"], capture_output=True, text=True, check=True)
    assert again.stdout == ""
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_compose_fits_the_other_files():
    services = compose()["services"]
    front_ends = {name: service for name, service in services.items() if "serve" in service["command"]}
    sweepers = {name: service for name, service in services.items() if service["command"] == ["sweep"]}
    assert len(front_ends) == 3
    assert len(sweepers) == 2
    assert all("--no-sweep" in service["command"] for service in front_ends.values())
    assert [service["ports"][0] for service in front_ends.values()] == ["9876:9876", "9877:9876", "9878:9876"]
    wait_s = build(config_file=DEPLOY / "namesrv.properties", environ={}).shutdown_wait_time_seconds
    for service in (*front_ends.values(), *sweepers.values()):
        assert int(service["stop_grace_period"].rstrip("s")) > wait_s + 1
        assert service["env_file"] == "mqregistry.env"
        assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).samefile(DEPLOY / "Dockerfile")
        assert set(service.get("environment", {})) <= set(environment())
    assert all(service["healthcheck"] == {"disable": True} for service in sweepers.values())
    assert all("healthcheck" not in service for service in front_ends.values())  # the image's own
    for service in services.values():
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in compose()["volumes"]
            if source == "./redis.conf":
                assert target == services["redis"]["command"][1]
            elif source == "./users-7.acl":  # its image is of Redis 7
                assert f"\naclfile {target}\n" in text("redis.conf")
            elif source == "./namesrv.properties":
                assert target in service["command"]
            else:
                assert f"\ndir {target}\n" in text("redis.conf")
    host = re.search(r"@(\w+):", environment()["MQREGISTRY_REDIS"])
    assert host is not None
    assert host[1] in services
    check = services["redis"]["healthcheck"]["test"][1]
    assert set(re.findall(r"\$\$(\w+)", check)) <= set(environment())
    assert re.findall(r"--user (\w+)", check)[0] in acl_users()


def test_dockerfile_copies_what_exists_and_ends_as_the_command():
    instructions = dockerfile()
    copied = [path for word, rest in instructions if word == "COPY" for path in rest.split()[:-1]]
    assert all((ROOT / path).exists() for path in copied)
    ignored = [line[1:] for line in text("Dockerfile.dockerignore").splitlines() if line.startswith("!")]
    assert sorted(ignored) == sorted(copied)
    assert [rest.split()[0] for word, rest in instructions if word == "FROM"] == ["python:3.12-slim"] * 2
    assert ("ENTRYPOINT", '["entrypoint.sh"]') in instructions
    assert ("COPY", "deploy/image /opt/mqregistry/bin") in instructions
    assert ("WORKDIR", "/opt/mqregistry/bin") in instructions
    user = next(rest for word, rest in instructions if word == "USER")
    assert any(f"--uid {user} " in rest for word, rest in instructions if word == "RUN")
    words = [word for word, _ in instructions]
    assert words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")


@pytest.mark.parametrize(
    ("started", "runs"),
    [
        (["serve", "--workers", "2"], "serve --workers 2"),
        (["sweep"], "sweep"),
        # what others' charts, compose files and RocketMQ's own entry point have
        (["sh", "mqnamesrv"], "serve"),
        (["./mqnamesrv", "-c", "/etc/a b.conf"], "serve -c /etc/a b.conf"),
        (["/bin/sh", "-c", "./mqnamesrv -c x -n 10.0.0.1:9876 -p"], "serve -c x -p"),
        (["/bin/sh", "-c", "mqnamesrv"], "serve"),
        (["nameserver", "-c", "x"], "serve -c x"),
        # what tutorials have
        (["sh", "mqnamesrv", "&"], "serve"),
        (["nohup", "sh", "mqnamesrv"], "serve"),
        (["nohup", "sh", "bin/mqnamesrv", "&"], "serve"),
        (["nohup", "./mqnamesrv", "-c", "x=y.conf"], "serve -c x=y.conf"),
        (["nohup", "sh", "mqnamesrv", ">", "/dev/null", "2>&1", "&"], "serve"),
        (["sh", "-c", "cd / && /home/rocketmq/bin/mqnamesrv -n 10.0.0.1:9876; exit"], "serve"),
        (["sh", "/home/rocketmq/rocketmq-4.9.7/bin/mqnamesrv"], "serve"),
        (["/home/rocketmq/rocketmq-5.3.3/bin/mqnamesrv", "-c", "x"], "serve -c x"),
        (["sh", "-c", "/home/rocketmq/rocketmq-5.3.3/bin/mqnamesrv -c x"], "serve -c x"),
        (["sh", "mqnamesrv", "autoCreateTopicEnable=true"], "serve"),
        (["mqnamesrv", "--configFile", "x"], "serve -c x"),
        (["mqnamesrv", "--set", "clusterTest=true", "--port=9877"], "serve --set clusterTest=true --port=9877"),
    ],
    ids=str,
)
def test_the_image_takes_the_place_of_rocketmqs(started, runs, tmp_path):
    told = tmp_path / "mqregistry"
    told.write_text('#!/bin/sh\necho "$*"\n')
    told.chmod(0o755)
    folder = DEPLOY / "image"
    path = f"{tmp_path}:{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [folder / "entrypoint.sh", *started], cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == runs + "\n"
    ignored = {one for one in started if one in ("&", ">", "2>&1") or one.startswith("autoCreate")}
    assert {line.removeprefix("mqnamesrv: ").split()[0] for line in done.stderr.splitlines()} >= ignored
    assert all("ignored" in line for line in done.stderr.splitlines())


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze on PATH: apt-get install systemd")
def test_units_are_verified_by_systemd(tmp_path):
    names = []
    for unit in units():
        name = unit.name.replace("@.", "@9876.")
        # what an administrator installs first; systemd-analyze wants the program to be there
        (tmp_path / name).write_text(unit.read_text().replace("/opt/mqregistry/bin/mqregistry", find_server()))
        names.append(str(tmp_path / name))
    # without a system manager of its own, it reads the units of this machine: none but ours are wanted
    # (a path that ends with ":" would add the usual folders again)
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        capture_output=True, text=True, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
    )  # fmt: skip
    ours = [line for line in ended.stderr.splitlines() if "mqregistry" in line]
    assert ended.returncode == 0, ended.stderr
    assert ours == []
    for name in names:
        ended = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", "--threshold=20", name], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout[-300:]  # an exposure of at most 2.0


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_unit_stops_as_it_should(unit):
    lines = unit.read_text().splitlines()
    wait_s = build(config_file=DEPLOY / "namesrv.properties", environ={}).shutdown_wait_time_seconds
    least_s = wait_s + 2 if "serve" in unit.name else 5
    (timeout,) = (line for line in lines if line.startswith("TimeoutStopSec="))
    assert int(timeout.partition("=")[2].rstrip("s")) >= least_s
    for line in ("Restart=on-failure", "KillSignal=SIGTERM", "DynamicUser=yes", "ProtectSystem=strict",
                 "NoNewPrivileges=yes", "EnvironmentFile=/etc/mqregistry/mqregistry.env"):  # fmt: skip
        assert line in lines
    assert any(line.startswith("LimitNOFILE=") for line in lines)


def test_every_file_is_described():
    readme = text("README.md")
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "README.md":
            # a chart is one thing
            where = CHART if path.is_relative_to(CHART) else path
            assert f"`{where.relative_to(DEPLOY)}{'/' * where.is_dir()}`" in readme, path
