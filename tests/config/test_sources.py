"""Where settings come from, for every one of them; what -p prints; what workers are sent."""

from __future__ import annotations

import msgspec
import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.config.in_force import in_force
from mqregistry.config.java_keys import KNOWN_TO_JAVA
from mqregistry.config.option import Option
from mqregistry.config.settings import Settings, options
from mqregistry.config.sources import build
from mqregistry.errors import ConfigError

ALL = list(options().values())
by_name = pytest.mark.parametrize("option", ALL, ids=lambda option: option.name)


def other_values(option: Option) -> list[str]:
    """Five texts that the setting takes, none of them its default."""
    if option.kind == "bool":
        # only two values: each source beats the one before by saying the opposite
        flipped, same = option.show(not option.default), option.show(option.default)
        return [flipped, same, flipped, same, flipped]
    if option.about.choices:
        choices = [choice for choice in option.about.choices if choice != option.default]
        return [(choices + list(option.about.choices))[i % len(option.about.choices)] for i in range(5)]
    if option.kind == "str":
        if option.about.check is not None:  # networks
            return [f"10.0.{i}.0/24;::{i}" for i in range(5)]
        texts = [f"a{i}" for i in range(5)]
        return (
            [f"{text}:1" for text in texts] if option.about.form[0].find(":") > 0 and "addr" in option.name else texts
        )
    least = max(1, option.about.least or 0)
    return [str(least + i) for i in range(1, 6)]


@by_name
def test_each_source_beats_the_ones_before(option, tmp_path):
    """default < file < shared configuration < environment < flag, step by step."""
    in_file, in_shared, in_environment, in_flag, _ = other_values(option)
    file = tmp_path / "namesrv.properties"
    file.write_text(f"# a comment\n{option.key}={in_file}\n")
    shared = {option.key: in_shared}
    variable = option.variables[0]

    def effective(*, config_file=None, environ=None, flags=None, shared=None):
        settings = build(config_file=config_file, environ=environ or {}, flags=flags, warn=lambda _: None)
        settings = in_force(settings, shared or {})
        return getattr(settings, option.name), settings.source(option.name)

    if option.name != "data_dir":  # its default is the user's
        assert effective() == (option.default, "default")
    from_file = option.parse(in_file), f"file {file}:2"
    assert effective(config_file=file) == from_file
    from_shared = (option.parse(in_shared), "shared configuration") if option.about.shared else from_file
    assert effective(config_file=file, shared=shared) == from_shared
    environ = {variable: in_environment}
    from_environment = option.parse(in_environment), f"environment {variable}"
    assert effective(config_file=file, environ=environ) == from_environment
    assert effective(config_file=file, environ=environ, shared=shared) == from_environment
    flags = {option.name: option.parse(in_flag)}
    from_flag = option.parse(in_flag), f"flag {option.flag}"
    assert effective(config_file=file, environ=environ, flags=flags, shared=shared) == from_flag


@pytest.mark.parametrize(
    "option", [option for option in ALL if not option.about.shared], ids=lambda option: option.name
)
def test_what_belongs_to_one_process_never_comes_from_redis(option):
    settings = build(environ={})
    assert in_force(settings, {option.key: other_values(option)[0]}) == settings


def test_names_are_unique():
    keys = [option.key for option in ALL]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(KNOWN_TO_JAVA)
    flags = [option.flag for option in ALL]
    assert len(set(flags)) == len(flags)
    variables = [variable for option in ALL for variable in option.variables]
    assert len(set(variables)) == len(variables)
    assert all(variable.isupper() and variable.startswith("MQREGISTRY_") for variable in variables)


@by_name
def test_every_setting_explains_itself(option):
    assert option.about.help[0].isupper()
    assert option.allowed
    assert option.key[0].islower()
    assert "_" not in option.key


@by_name
def test_an_environment_name_that_is_not_the_first_counts_too(option):
    for variable in option.variables:
        value = other_values(option)[0]
        settings = build(environ={variable: value})
        assert (getattr(settings, option.name), settings.source(option.name)) == (
            option.parse(value), f"environment {variable}",
        )  # fmt: skip


BAD = {
    "int": ["", "x", "1.5", "1e3", "0x10", "--1", "-1", "99999999999", "9" * 5000, "１２", "+1", "1 2"],
    "int?": ["x", "-1", "65536"],
    "bool": ["", "yes", "1", "on", "truely"],
}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        (option, value)
        for option in ALL
        for value in BAD.get(option.kind, ["nothing of this"] if option.about.choices else [])
    ],
    ids=lambda part: part.name if isinstance(part, Option) else repr(part[:12]),
)  # fmt: skip
def test_a_bad_value_names_key_value_place_and_what_is_allowed(option, value, tmp_path):
    file = tmp_path / "f.properties"
    file.write_text(f"\n\n{option.key}={value}")
    with pytest.raises(ConfigError) as raised:
        build(config_file=file, environ={})
    assert str(raised.value) == f"{option.key}={value!r} (file {file}:3): expected {option.allowed}"
    variable = option.variables[0]
    with pytest.raises(ConfigError) as raised:
        build(environ={variable: value})
    assert str(raised.value) == f"{variable}={value!r} (environment {variable}): expected {option.allowed}"


@pytest.mark.parametrize(
    "option", [o for o in ALL if o.kind in ("int", "int?")], ids=lambda option: option.name
)  # fmt: skip
def test_limits_belong_to_what_is_allowed(option):
    for limit, beyond in ((option.about.least, -1), (option.about.most, 1)):
        if limit is not None:
            assert option.parse(str(limit)) == limit
            if limit + beyond != 0 or not option.about.zero_is_default:
                with pytest.raises(ValueError):
                    option.parse(str(limit + beyond))


def test_settings_with_all_their_sources_survive_json(tmp_path):
    file = tmp_path / "ü.properties"
    file.write_text('workers=3\nproductEnvName=Zürich\\u0000\\"\n', encoding="utf-8")
    settings = in_force(
        build(
            config_file=file, environ={"MQREGISTRY_PORT": "1234", "MQREGISTRY_HTTP_PORT": "0"},
            flags={"redis": "redis://:p%40w@h/0", "sweep": False},
        ),
        {"enableTopicList": "false"},
    )  # fmt: skip
    again = msgspec.json.decode(msgspec.json.encode(settings), type=Settings)
    assert again == settings
    assert again.sources == settings.sources == {
        "workers": f"file {file}:1", "product_env_name": f"file {file}:2", "listen_port": "environment MQREGISTRY_PORT",
        "http_port": "environment MQREGISTRY_HTTP_PORT", "redis": "flag --redis", "sweep": "flag --sweep",
        "enable_topic_list": "shared configuration",
    }  # fmt: skip


# -p


def printed(*arguments, **environ):
    done = CliRunner().invoke(cli, ["serve", *arguments, "-p"], env=environ)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_p_prints_every_setting_with_its_source(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("listenPort=9999\nclusterTest=true\n")
    lines = printed("-c", str(file), "--workers", "2", MQREGISTRY_NAMESPACE="n1")
    assert lines[0] == f"load config properties file OK, {file}"
    assert [line.partition("=")[0] for line in lines[1:]] == [option.key for option in ALL]
    assert f"listenPort=9999  (file {file}:1)" in lines
    assert f"clusterTest=true  (file {file}:2)" in lines
    assert "workers=2  (flag --workers)" in lines
    assert "namespace=n1  (environment MQREGISTRY_NAMESPACE)" in lines
    assert "httpPort=10999  (default)" in lines


def test_p_shows_what_only_java_has_and_why_it_has_no_effect(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("kvConfigPath=/there/kv.json\nserverWorkerThreads=16\n")
    lines = printed("-c", str(file))
    assert lines[-2].startswith("kvConfigPath=/there/kv.json  (no effect: KV configuration is kept in Redis")
    assert lines[-1] == "serverWorkerThreads=16  (no effect: no thread pools: see workers)"


def test_what_kubernetes_says_of_a_service_that_is_called_as_we_are_is_no_setting():
    links = {
        "MQREGISTRY_PORT": "tcp://10.0.0.1:9876", "MQREGISTRY_PORT_9876_TCP": "tcp://10.0.0.1:9876",
        "MQREGISTRY_PORT_9876_TCP_ADDR": "10.0.0.1", "MQREGISTRY_PORT_9876_TCP_PORT": "9876",
        "MQREGISTRY_PORT_9876_TCP_PROTO": "tcp", "MQREGISTRY_SERVICE_HOST": "10.0.0.1",
        "MQREGISTRY_SERVICE_PORT": "9876", "MQREGISTRY_SERVICE_PORT_HTTP": "10876",
        "MQREGISTRY_HTTP_PORT": "tcp://10.0.0.2:80", "MQREGISTRY_REDIS_SERVICE_HOST": "10.0.0.3",
    }  # fmt: skip
    warnings = []
    settings = build(environ={**links, "MQREGISTRY_WORKERS": "2"}, warn=warnings.append)
    assert (settings.listen_port, settings.http_port, settings.workers, warnings) == (9876, None, 2, [])


def test_a_user_without_a_name_and_a_home_has_settings_too(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as for a user id that nobody has
    assert build(environ={}).listen_port == 9876


def test_p_shows_no_password(redis_url):
    lines = printed(
        "--redis", "redis://user:s3cret@127.0.0.1:1/0", MQREGISTRY_TLS_SERVER_KEY_PASSWORD="s3cret",
        MQREGISTRY_REDIS_PASSWORD="s3cret", MQREGISTRY_REDIS_TIMEOUT_MS="100",
    )  # fmt: skip
    assert "redis=redis://***@127.0.0.1:1/0  (flag --redis)" in lines
    assert "tlsServerKeyPassword=***  (environment MQREGISTRY_TLS_SERVER_KEY_PASSWORD)" in lines
    assert "s3cret" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"listenPort": 9877}\n', ":1: '{\"listenPort\"': expected lines like listenPort=9876, not JSON or XML"),
        ("# JSON\n[1]\n", ":2: '\\[1]': expected lines like"),
        ("<a>listenPort</a>", ":1: '<a>listenPort</a>': expected lines like"),
        ("clusterTest=true\nlistenPort＝9877\n", ":2: 'listenPort＝9877' has a full-width"),
        ("listenPort：9877\n", ":1: 'listenPort：9877' has a full-width"),
    ],
)
def test_a_file_of_which_nothing_would_count_is_refused(tmp_path, text, said):
    file = tmp_path / "namesrv.properties"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        build(config_file=file, environ={})


def test_full_width_characters_in_values_and_comments_are_nobodys_business(tmp_path):
    file = tmp_path / "namesrv.properties"
    file.write_text("# listenPort＝1\nproductEnvName=a＝b\n", encoding="utf-8")
    assert build(config_file=file, environ={}).product_env_name == "a＝b"
