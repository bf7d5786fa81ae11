"""The Dockerfile's steps by hand: its first stage's wheel, run without the source, asked by its health check."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from bench.servers.processes import free_port
from mqregistry.embedded import die_with_parent
from mqregistry.store.processes import read_fleet
from mqregistry.store.store import Store

from ..server.harness import wait_until
from .files import DEPLOY, ROOT, dockerfile, environment, login, password, stages


async def is_swept(url, namespace):
    async with Store(url, namespace) as store:
        return bool((await read_fleet(store)).sweepers)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from nothing but what the Dockerfile copies."""
    source = tmp_path_factory.mktemp("src")
    for word, rest in stages()[0]:
        if word == "COPY":
            *paths, target = rest.split()
            for path in paths:
                if (ROOT / path).is_dir():
                    assert target == path
                    shutil.copytree(ROOT / path, source / path, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    (source / target).mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / path, source / target)
    (step,) = (rest for word, rest in dockerfile() if word == "RUN" and " pip wheel " in rest)
    assert step.endswith('--constraint constraints.txt --wheel-dir /wheels ".[$EXTRAS]"')
    wheels = tmp_path_factory.mktemp("wheels")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-build-isolation", "--wheel-dir", str(wheels), "."],
        cwd=source, check=True, timeout=100,
    )  # fmt: skip
    (found,) = wheels.glob("mqregistry-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel; what it depends on is lent by ours, the source is not."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet",
         "--disable-pip-version-check", "--no-deps", "--no-index", str(wheel)],
        check=True, timeout=100,
    )  # fmt: skip
    (packages,) = folder.glob("lib/python*/site-packages")
    ours = [sysconfig.get_path("purelib"), *site.getsitepackages()]
    (packages / "lent.pth").write_text("\n".join(dict.fromkeys(ours)) + "\n")
    return folder / "bin"


def test_wheel_carries_all_of_it(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for path in (*ROOT.glob("registry/**/*.py"), *ROOT.glob("worker/*.py")):
        assert "mqregistry/" + str(path.relative_to(ROOT)).removeprefix("registry/") in names
    for path in ROOT.glob("lua/**/*.lua"):
        assert f"mqregistry/{path.relative_to(ROOT)}" in names
    assert "pyspark_redis_stream.py" in names  # where Spark looks
    page = zipfile.ZipFile(wheel).read("mqregistry/cli/help/troubleshooting.md")  # what 'mqregistry help' shows
    assert page == (ROOT / "docs" / "howto" / "troubleshooting.md").read_bytes()
    assert not [name for name in names if name.startswith(("tests", "bench", "deploy"))]
    metadata = zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("METADATA"))).decode()
    assert "Requires-Dist: redis[hiredis]" in metadata


def test_front_ends_and_sweeper_run_from_the_wheel_and_are_healthy(installed, deployed, namespace, tmp_path):
    port = free_port()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("MQREGISTRY_", "PYTHON"))},
        **environment(),
        "MQREGISTRY_REDIS": re.sub(r"@[\w:]+", f"@{deployed.address}", environment()["MQREGISTRY_REDIS"]),
        "MQREGISTRY_REDIS_PASSWORD": password("mqregistry"),
        "MQREGISTRY_NAMESPACE": namespace,
        "MQREGISTRY_HOST": "127.0.0.1",
        "MQREGISTRY_PORT": str(port),
        "MQREGISTRY_HTTP_PORT": str(port + 1000),
    }
    (check,) = (rest for word, rest in dockerfile() if word == "HEALTHCHECK")
    program, *arguments = json.loads(check.partition(" CMD ")[2])
    assert program == "python"

    def healthy():
        command = [str(installed / "python"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, cwd=tmp_path).returncode == 0

    where = subprocess.run(
        [installed / "python", "-c", "import mqregistry; print(mqregistry.__file__)"],
        capture_output=True, text=True, cwd=tmp_path, env=variables, check=True,
    ).stdout  # fmt: skip
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert not healthy()
    running = []
    try:
        # the front end as existing charts and compose files start RocketMQ's own
        folder = DEPLOY / "image"
        for command in (["sh", "mqnamesrv", "--no-sweep"], ["sweep"]):
            running.append(
                subprocess.Popen(
                    [folder / "entrypoint.sh", *command],
                    # in the image both scripts are on PATH
                    env={**variables, "PATH": f"{installed}:{folder}:{os.environ['PATH']}"},
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    preexec_fn=die_with_parent,
                )
            )
        wait_until(healthy, "the health check says yes")
        wait_until(lambda: asyncio.run(is_swept(login(deployed, "mqregistry"), namespace)), "the sweeper sweeps")
        for process in running:  # docker stop, systemctl stop
            process.terminate()
        for process in running:
            _, log = process.communicate(timeout=60)
            assert process.returncode == 0, log.decode()
            assert b"Traceback" not in log
        assert not healthy()
    finally:
        for process in running:
            process.kill()
            process.communicate()
