"""A kube-apiserver with an etcd, without nodes: it takes or refuses objects as a cluster does, and runs nothing.

There is none to download everywhere; run as a module, this builds both with Go into the cache. That takes ten minutes.
"""

from __future__ import annotations

import json
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from bench.servers.processes import Processes, free_port, wait_until
from bench.servers.rocketmq import cache_folder, say_where
from tests.certificates import Authority

from .go_builds import build_once, go

VERSION = "1.36.3"
BUILD_TIMEOUT_S = 3600
START_TIMEOUT_S = 120
TOKEN = "of-the-tests"
KUBE_APISERVER = """package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
"""
ETCD = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""
PROGRAMS = {"kube-apiserver": KUBE_APISERVER, "etcd": ETCD}


def built(program: str = "kube-apiserver") -> Path:
    """Where the one of this version is, once it has been built."""
    return cache_folder() / f"kubernetes-{VERSION}" / program


def build() -> Path:
    """Build both, unless they are there.

    Raises:
        Unavailable: there is no Go, or it could not build it.
    """
    return build_once(built(), _build, "no go on PATH, which would build a kube-apiserver")


def _build(folder: Path) -> None:
    module = f"k8s.io/kubernetes@v{VERSION}"
    with tempfile.TemporaryDirectory() as name:
        source = Path(name)

        def here(*arguments: str) -> str:
            return go(f"go {arguments[0]} of {module}", *arguments, timeout_s=BUILD_TIMEOUT_S, folder=source)

        # Its go.mod takes these from folders of its repository; they are published, too, as 0.x of the same release.
        text = Path(json.loads(here("mod", "download", "-json", module))["GoMod"]).read_text()
        staged = re.findall(r"^\s*(k8s\.io/[\w-]+) => \./staging/", text, re.M)
        for program, main in PROGRAMS.items():
            (source / program).mkdir()
            (source / program / "main.go").write_text(main)
        (source / "go.mod").write_text(
            f"module tests\n\ngo 1.26.0\n\nrequire {module.replace('@', ' ')}\n\nreplace (\n"
            + "".join(f"\t{one} => {one} v0{VERSION[1:]}\n" for one in staged)
            + ")\n"
        )
        here("mod", "tidy")
        minor = VERSION.split(".")[1]
        known = {"gitVersion": f"v{VERSION}", "gitMajor": "1", "gitMinor": minor}
        flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in known.items())
        here("build", "-ldflags", f"-s -w {flags}", "-o", f"{folder}/", "./...")


class ApiServer:
    """One that answers: its API, and a kubeconfig for those who want to use it."""

    def __init__(self, url: str, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._http = httpx.Client(
            base_url=url, verify=_unverified(), headers={"authorization": f"Bearer {TOKEN}"}, timeout=60
        )
        cluster = {"server": url, "insecure-skip-tls-verify": True}
        kubeconfig.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": TOKEN}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }))  # fmt: skip

    def is_ready(self) -> bool:
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> dict[str, Any]:
        answer = self._http.get(path)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def create(self, path: str, one: dict[str, Any], *, dry_run: bool = False) -> httpx.Response:
        """Create an object, any field of which that is not known is refused."""
        asked = {"fieldValidation": "Strict", **({"dryRun": "All"} if dry_run else {})}
        return self._http.post(path, json=one, params=asked)

    def close(self) -> None:
        self._http.close()


def _unverified() -> ssl.SSLContext:
    """Its certificate is one that it made itself."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def running_or_skip(folder: Path) -> Iterator[ApiServer]:
    if not built().exists():
        pytest.skip("no kube-apiserver was built: make k8s API_SERVER=1 builds one with Go")
    processes = Processes(folder)
    try:
        store, peers, port = (f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", free_port())
        processes.start(
            "etcd",
            [str(built("etcd")), "--data-dir", str(folder / "etcd"), "--listen-client-urls", store,
             "--advertise-client-urls", store, "--listen-peer-urls", peers, "--unsafe-no-fsync"],
            home=processes.home("etcd"),
        )  # fmt: skip
        tokens, accounts = folder / "tokens.csv", Authority(folder, "accounts").pair
        tokens.write_text(f"{TOKEN},admin,admin,system:masters\n")
        server = processes.start(
            "kube-apiserver",
            [str(built()), "--etcd-servers", store, "--bind-address", "127.0.0.1", "--secure-port", str(port),
             "--advertise-address", "127.0.0.1", "--cert-dir", str(folder / "certs"), "--token-auth-file", str(tokens),
             "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file",
             str(accounts.cert), "--service-account-signing-key-file", str(accounts.key),
             "--service-cluster-ip-range", "10.96.0.0/16",
             # its accounts are made by a controller that does not run here
             "--disable-admission-plugins", "ServiceAccount"],
            home=processes.home("kube-apiserver"),
        )  # fmt: skip
        api = ApiServer(f"https://127.0.0.1:{port}", folder / "kubeconfig")
        try:
            wait_until("it is ready", lambda: api.is_ready() or server.exit_code() is not None, START_TIMEOUT_S)
            assert server.exit_code() is None, server.tail()
            yield api
        finally:
            api.close()
    finally:
        processes.close()


if __name__ == "__main__":
    say_where(build)
