"""Settings: where each comes from, and what is said about a wrong one."""

from __future__ import annotations

import msgspec
import pytest

from mqregistry.config.in_force import in_force, without
from mqregistry.config.java_keys import KNOWN_TO_JAVA
from mqregistry.config.settings import Settings, options, options_by_key
from mqregistry.config.sources import build
from mqregistry.errors import ConfigError

# Keys of Java's answer to 319, 4.8.0 and 5.5.0 together (golden/probe-config-*).
JAVA_KEYS = [
    "bindAddress", "clientRequestThreadPoolNums", "clientRequestThreadPoolQueueCapacity", "clusterTest",
    "configBlackList", "configStorePath", "defaultThreadPoolNums", "defaultThreadPoolQueueCapacity",
    "deleteTopicWithBrokerRegistration", "enableAllTopicList", "enableControllerInNamesrv",
    "enableShutdownGracefully", "enableTopicList", "kvConfigPath", "listenPort", "needWaitForService",
    "notifyMinBrokerIdChanged", "orderMessageEnable", "productEnvName", "returnOrderTopicConfigToBroker",
    "rocketmqHome", "scanNotActiveBrokerInterval", "serverAsyncSemaphoreValue", "serverCallbackExecutorThreads",
    "serverChannelMaxIdleTimeSeconds", "serverNettyWorkerGroupEnable", "serverOnewaySemaphoreValue",
    "serverPooledByteBufAllocatorEnable", "serverSelectorThreads", "serverSocketBacklog", "serverSocketRcvBufSize",
    "serverSocketSndBufSize", "serverWorkerThreads", "shutdownWaitTimeSeconds", "supportActingMaster",
    "unRegisterBrokerQueueCapacity", "useEpollNativeSelector", "waitSecondsForService", "writeBufferHighWaterMark",
    "writeBufferLowWaterMark",
]  # fmt: skip


@pytest.fixture
def config_file(tmp_path):
    def write(text: str):
        path = tmp_path / "namesrv.properties"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def warnings():
    return []


def test_build_with_nothing_gives_defaults():
    settings = build(environ={"HOME": "/home/somebody"})
    assert settings.listen_port == 9876
    assert settings.effective_http_port == 10876
    assert settings.data_dir == "/home/somebody/.local/share/mqregistry"
    assert {settings.source(name) for name in options()} == {"default"}


def test_build_each_source_beats_the_one_before(config_file):
    path = config_file("listenPort=1\nworkers=2\nclusterTest=true\nproductEnvName=f\n\nnamespace=file")
    shared = {"listenPort": "9", "productEnvName": "shared", "clusterTest": "false", "enableTopicList": "false"}
    environ = {"MQREGISTRY_WORKERS": "3", "MQREGISTRY_CLUSTER_TEST": "TRUE", "MQREGISTRY_NAMESPACE": "environment"}
    settings = in_force(
        build(flags={"namespace": "flag", "redis": None}, config_file=path, environ=environ), shared
    )  # fmt: skip
    assert (settings.listen_port, settings.source("listen_port")) == (1, f"file {path}:1")
    assert (settings.workers, settings.source("workers")) == (3, "environment MQREGISTRY_WORKERS")
    assert (settings.cluster_test, settings.source("cluster_test")) == (True, "environment MQREGISTRY_CLUSTER_TEST")
    assert (settings.product_env_name, settings.source("product_env_name")) == ("shared", "shared configuration")
    assert (settings.enable_topic_list, settings.source("enable_topic_list")) == (False, "shared configuration")
    assert (settings.namespace, settings.source("namespace")) == ("flag", "flag --namespace")
    assert settings.source("redis") == "default"


def test_in_force_a_bad_shared_value_is_ignored_and_logged(caplog):
    settings = in_force(Settings(), {"scanNotActiveBrokerInterval": "soon", "unheardOf": "1"})
    assert settings == Settings()
    assert "scanNotActiveBrokerInterval='soon'" in caplog.text


def test_settings_survive_json():
    settings = build(flags={"workers": 4}, environ={"MQREGISTRY_PORT": "1234"})
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings


def test_build_variable_by_flag_name_or_by_java_name():
    assert build(environ={"MQREGISTRY_PORT": "1"}).listen_port == 1
    assert build(environ={"MQREGISTRY_LISTEN_PORT": "2"}).listen_port == 2
    assert (
        build(environ={"MQREGISTRY_SCAN_NOT_ACTIVE_BROKER_INTERVAL": "200"}).scan_not_active_broker_interval_ms == 200
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n\nlistenPort=99999", ["listenPort='99999'", "{file}:3", "a whole number from 1 to 65535"]),
        ("clusterTest=yes", ["clusterTest='yes'", "{file}:1", "true or false"]),
        ("compat=4.9", ["compat='4.9'", "one of 5.x, 4.8"]),
        ("namespace={x}", ["namespace='{x}'", "letters, digits"]),
        ("workers=٣", ["workers='٣'"]),
        ("workers=", ["workers=''"]),
        ("a=\\u12", ["{file}:1", "four hexadecimal digits"]),
    ],
)
def test_build_bad_value_names_key_value_line_and_what_is_allowed(config_file, text, said):
    path = config_file(text)
    with pytest.raises(ConfigError) as raised:
        build(config_file=path, environ={})
    for part in said:
        assert part.replace("{file}", str(path)) in str(raised.value)


def test_build_bad_variable_names_it():
    with pytest.raises(ConfigError, match=r"MQREGISTRY_WORKERS='0' .*a whole number from 1 to 256"):
        build(environ={"MQREGISTRY_WORKERS": "0"})


def test_build_missing_file_says_so(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.properties: No such file"):
        build(config_file=tmp_path / "nowhere.properties", environ={})


def test_build_unknown_key_warns_and_suggests(config_file, warnings):
    path = config_file("listenport=1\nxyzzy=1")
    settings = build(config_file=path, environ={"MQREGISTRY_WORKER": "3"}, warn=warnings.append)
    assert warnings == [
        f"{path}:1: unknown key 'listenport'; did you mean listenPort?",
        f"{path}:2: unknown key 'xyzzy'",
        "environment: unknown variable MQREGISTRY_WORKER; did you mean MQREGISTRY_WORKERS?",
    ]
    assert settings.listen_port == 9876


@pytest.mark.parametrize("name", ["MQREGISTRY_LAKE"])
def test_build_takes_the_pipelines_variables_in_silence(name, warnings):
    build(environ={name: "/srv/lake"}, warn=warnings.append)
    assert warnings == []


@pytest.mark.parametrize("key", JAVA_KEYS)
def test_build_every_java_key_is_taken_in_silence(key, config_file, warnings):
    option = options_by_key().get(key)
    assert (option is None) == (key in KNOWN_TO_JAVA)
    value = option.show(option.default) if option else "7"
    build(config_file=config_file(f"{key}={value}"), environ={}, warn=warnings.append)
    assert warnings == []


def test_build_controller_switched_on_warns(config_file, warnings):
    build(config_file=config_file("enableControllerInNamesrv=true"), environ={}, warn=warnings.append)
    assert "has no effect" in warnings[0]


def test_build_water_mark_of_0_is_our_default(config_file):
    settings = build(config_file=config_file("writeBufferHighWaterMark=0"), environ={})
    assert settings.write_buffer_high_water_mark_bytes == 4 * 1024 * 1024


@pytest.mark.parametrize(
    ("port", "http_port", "effective"), [(9876, None, 10876), (65000, None, 64000), (9876, 0, 0), (9876, 80, 80)]
)
def test_effective_http_port(port, http_port, effective):
    assert Settings(listen_port=port, http_port=http_port).effective_http_port == effective


def test_every_setting_has_a_key_a_help_and_a_readable_default():
    keys = [option.key for option in options().values()]
    assert len(set(keys)) == len(keys)
    for option in options().values():
        assert option.about.help
        assert option.parse(option.show(option.default)) == option.default


def test_shared_keys_hold_nothing_of_one_process():
    shared = {option.name for option in options().values() if option.about.shared}
    assert not shared & {
        "listen_port",
        "bind_address",
        "redis",
        "namespace",
        "workers",
        "data_dir",
        "log_file",
        "compat",
    }


def test_settings_without_some_keys_are_those_of_nobody():
    settings = build(flags={"support_acting_master": True, "listen_port": 1}, environ={})
    plain = without(settings, {"supportActingMaster", "no such key"})
    assert (plain.support_acting_master, plain.source("support_acting_master")) == (False, "default")
    assert (plain.listen_port, plain.source("listen_port")) == (1, "flag --port")


@pytest.mark.parametrize("own", ["5.x", "4.8"])
def test_in_force_a_key_that_the_compat_mode_does_not_know_has_its_default(own):
    """Whoever set it; the compat mode of the namespace counts where it is known."""
    mine = build(flags={"enable_topic_list": False, "compat": own}, environ={})
    shared = {"supportActingMaster": "true", "orderMessageEnable": "true"}
    settings = in_force(mine, shared, compat="4.8")
    assert (settings.enable_topic_list, settings.source("enable_topic_list")) == (True, "default")
    assert (settings.support_acting_master, settings.source("support_acting_master")) == (False, "default")
    assert (settings.order_message_enable, settings.source("order_message_enable")) == (True, "shared configuration")
    settings = in_force(mine, shared, compat="5.x")
    assert (settings.enable_topic_list, settings.support_acting_master) == (False, True)
