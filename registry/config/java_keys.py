"""Keys of a Java NameServer's properties file that have no effect here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple


class JavaKey(NamedTuple):
    """A key without effect: Java's default, which request 319 (GET_NAMESRV_CONFIG) shows, and why it has no effect."""

    default: str
    why: str


# Keys of Java's NamesrvConfig, NettyServerConfig and RemotingServer. Our properties file may have them. Request 318
# stores a value for such a key, and 319 then shows the value, as Java does.
KNOWN_TO_JAVA: Final[Mapping[str, JavaKey]] = {
    "rocketmqHome": JavaKey("", "there is no installation folder"),
    "kvConfigPath": JavaKey("", "KV configuration is kept in Redis; while Redis has none, this file is imported"),
    "configStorePath": JavaKey("", "changed configuration is kept in Redis"),
    "enableControllerInNamesrv": JavaKey("false", "the controller is not part of this server"),
    "unRegisterBrokerQueueCapacity": JavaKey("3000", "unregistrations are not queued"),
    "clientRequestThreadPoolNums": JavaKey("8", "no thread pools"),
    "clientRequestThreadPoolQueueCapacity": JavaKey("50000", "no thread pools"),
    "defaultThreadPoolNums": JavaKey("16", "no thread pools"),
    "defaultThreadPoolQueueCapacity": JavaKey("10000", "no thread pools"),
    "serverWorkerThreads": JavaKey("8", "no thread pools: see workers"),
    "serverCallbackExecutorThreads": JavaKey("0", "no thread pools"),
    "serverSelectorThreads": JavaKey("3", "one event loop a worker: see workers"),
    "serverNettyWorkerGroupEnable": JavaKey("true", "no Netty"),
    "serverPooledByteBufAllocatorEnable": JavaKey("true", "no Netty"),
    "useEpollNativeSelector": JavaKey("false", "the event loop always uses epoll"),
    "serverOnewaySemaphoreValue": JavaKey("256", "see maxInFlight"),
    "serverAsyncSemaphoreValue": JavaKey("64", "see maxInFlight"),
    "serverSocketSndBufSize": JavaKey("0", "left to the kernel"),
    "serverSocketRcvBufSize": JavaKey("0", "left to the kernel"),
    "writeBufferLowWaterMark": JavaKey("0", "a quarter of the high mark"),
}


def java_paths(environ: Mapping[str, str], config_file: Path | None, in_file: Mapping[str, str]) -> dict[str, str]:
    """The paths that 319 shows at a Java NameServer that was started in this way (NamesrvConfig, NamesrvStartup).

    Args:
        environ: the environment of the process.
        config_file: the file of ``-c``; Java writes changes by 318 to this file.
        in_file: the keys of ``KNOWN_TO_JAVA`` in this file, with their values.
    """
    folder = home(environ) / "namesrv"
    paths = {
        "rocketmqHome": environ.get("ROCKETMQ_HOME", ""),
        "kvConfigPath": str(folder / "kvConfig.json"),
        "configStorePath": str(folder / "namesrv.properties"),
    }
    paths |= {key: in_file[key] for key in paths.keys() & in_file.keys()}
    return paths if config_file is None else paths | {"configStorePath": str(config_file)}


def home(environ: Mapping[str, str]) -> Path:
    """The user's home folder; "~" if there is none, as in a container whose user id has no name."""
    return Path(environ.get("HOME") or os.path.expanduser("~"))
