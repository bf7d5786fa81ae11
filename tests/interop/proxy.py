"""The proxy of 5.x, from Maven, and the gRPC client that knows proxies only."""

import json
from collections.abc import Mapping
from pathlib import Path

from bench.servers.processes import ChildProcess, Processes, free_port
from bench.servers.rocketmq import cache_folder, copy_jars, need_jdk, publish_once

from .rocketmq import CLUSTER, DRIVERS, START_TIMEOUT_S, Release, SteeredClient, compile_drivers, digest_of

GRPC_CLIENT_VERSION = "5.0.7"
STARTED = "rocketmq-proxy startup successfully"


def fetch_proxy(version: str) -> Release:
    """The jars of a proxy; raises Unavailable where they cannot be had."""
    need_jdk()
    folder = cache_folder() / f"proxy-{version}"
    what = f"the proxy of RocketMQ {version}"
    publish_once(folder, lambda partial: copy_jars(partial, what, [f"org.apache.rocketmq:rocketmq-proxy:{version}"]))
    return Release(version, folder / "lib", folder / "no-drivers")


def fetch_grpc_client() -> Release:
    """The jars of the gRPC client, with our driver; raises Unavailable where they cannot be had."""
    need_jdk()
    folder = cache_folder() / f"grpc-client-{GRPC_CLIENT_VERSION}"
    artifact = f"org.apache.rocketmq:rocketmq-client-java:{GRPC_CLIENT_VERSION}"
    publish_once(folder, lambda partial: copy_jars(partial, "the gRPC client", [artifact]))
    sources = sorted((DRIVERS / "grpc").glob("*.java"))
    drivers = folder.with_name(f"grpc-drivers-{digest_of(sources)}")
    publish_once(drivers, lambda partial: compile_drivers(folder / "lib", sources, partial))
    return Release(GRPC_CLIENT_VERSION, folder / "lib", drivers / "drivers.jar")


class Proxy:
    """In cluster mode, a client of brokers and name server; in local mode with a broker in the same process."""

    def __init__(
        self, processes: Processes, release: Release, name_servers: str, broker_configuration: Path | None = None
    ) -> None:
        home = processes.home(f"proxy-{release.version}")
        self.grpc_port = free_port()
        settings: Mapping[str, object] = {
            "rocketMQClusterName": CLUSTER,
            "proxyClusterName": CLUSTER,
            "proxyName": f"proxy-{self.grpc_port}",
            "localServeAddr": "127.0.0.1",
            "namesrvAddr": name_servers,
            "grpcServerPort": self.grpc_port,
            "remotingListenPort": free_port(),
        }
        configuration = home / "rmq-proxy.json"
        configuration.write_text(json.dumps(settings))
        arguments = ["-pc", str(configuration), "-pm", "cluster"]
        if broker_configuration:
            arguments = ["-pc", str(configuration), "-pm", "local", "-bc", str(broker_configuration)]
        command = release.with_properties({"RMQ_PROXY_HOME": home}).java(
            "org.apache.rocketmq.proxy.ProxyStartup", home, *arguments
        )
        self.process: ChildProcess = processes.start(f"proxy {release.version} at {self.grpc_port}", command, home=home)
        self.process.wait_for_output(STARTED, START_TIMEOUT_S)

    @property
    def addr(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"


class GrpcClient(SteeredClient):
    """A producer and a push consumer over gRPC; it knows `send` and `counts`."""

    def __init__(self, processes: Processes, release: Release, proxy: Proxy, topic: str) -> None:
        home = processes.home("grpc-client")
        command = release.java("GrpcDriver", home, proxy.addr, topic, f"group_{topic}")
        super().__init__(topic, processes.start(f"gRPC client of {topic}", command, home=home, steered=True))
