"""Help, -p, exit codes and completion of every command."""

from __future__ import annotations

import subprocess

import pytest
from click.testing import CliRunner

from mqregistry import __version__
from mqregistry.cli import cli
from mqregistry.config.settings import options


def commands():
    return cli.list_commands(None)


@pytest.mark.parametrize("name", commands())
def test_every_command_has_help_for_each_option(name, command):
    result = command(name, "--help")
    assert "Usage:" in result.stdout
    found = cli.get_command(None, name)
    assert found.help
    for param in found.params:
        assert param.param_type_name == "argument" or param.help, param


def test_group_help_names_the_exit_codes(command):
    said = " ".join(command("--help").stdout.split())
    assert "0 done, 1 failed, 2 wrong usage, 130 interrupted, 253 could not start" in said
    assert command("--version").stdout == f"mqregistry, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["nonsense"], ["up", "--nonsense"], ["up", "--port", "x"], ["route"],
                                       ["serve", "--workers", "0"], ["up", "--namespace", "a}b"],
                                       ["completion", "tcsh"]])  # fmt: skip
def test_wrong_usage_is_2(command, arguments):
    command(*arguments, expect=2)


def test_flag_that_is_not_allowed_says_what_is(command):
    assert "'99999': expected a whole number from 1 to 65535" in command("up", "--port", "99999", expect=2).stderr


def test_any_setting_can_be_set_by_its_key(command):
    result = command("up", "--set", "tlsServerMode=enforcing", "--set", "workers=3", "--workers", "2", "-p")
    assert "tlsServerMode=enforcing  (flag --set tlsServerMode)" in result.stdout.splitlines()
    assert "workers=2  (flag --workers)" in result.stdout.splitlines()


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("tlsServerMode=on", "expected one of disabled, permissive, enforcing"),
        ("tlsServerMod=x", "did you mean tlsServerMode?"),
        ("tlsServerMode", "expected KEY=VALUE"),
        ("tlsServerKeyPassword=x", "would be visible in the process list: set MQREGISTRY_TLS_SERVER_KEY_PASSWORD"),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(command, assignment, said):
    assert said in " ".join(command("serve", "--set", assignment, expect=2).stderr.split())


def test_print_config_shows_every_setting_with_its_source(command, home):
    file = home / "n.properties"
    file.write_text("listenPort=1234\n")
    result = command("up", "-c", str(file), "--workers", "2", "-p", MQREGISTRY_NAMESPACE="mine")
    lines = result.stdout.splitlines()
    assert lines[0] == f"load config properties file OK, {file}"
    assert [line.partition("=")[0] for line in lines[1:]] == [option.key for option in options().values()]
    assert f"listenPort=1234  (file {file}:1)" in lines
    assert "httpPort=2234  (default)" in lines
    assert "workers=2  (flag --workers)" in lines
    assert "namespace=mine  (environment MQREGISTRY_NAMESPACE)" in lines
    assert "bindAddress=127.0.0.1  (default)" in lines
    assert "clusterTest=false  (default)" in lines


def test_print_config_includes_the_shared_configuration(command, redis_url, namespace, run):
    from mqregistry.store.config_writes import KvStore
    from mqregistry.store.store import Store

    async def make():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            await KvStore(store).set_config({"productEnvName": "east", "listenPort": "1"})

    run(make())
    lines = command("serve", "--redis", redis_url, "--namespace", namespace, "-p").stdout.splitlines()
    assert "productEnvName=east  (shared configuration)" in lines
    assert "listenPort=9876  (default)" in lines


def test_print_config_without_redis_warns_and_goes_on(command, home):
    result = command("serve", "--redis", f"unix://{home}/nobody.sock", "-p")
    assert "listenPort=9876  (default)" in result.stdout
    assert "the shared configuration is not included" in result.stderr


def test_print_config_without_any_redis_says_that_the_shared_configuration_is_unknown(command):
    for name in ("up", "serve", "sweep"):
        assert "the shared configuration is not included: no Redis is named" in command(name, "-p").stderr


def test_print_config_of_up_shows_the_shared_configuration_of_the_one_that_runs(start_up, command, home, run):
    from mqregistry.store.config_writes import KvStore
    from mqregistry.store.store import Store

    start_up()

    async def change():
        async with Store(f"unix://{home}/data/redis.sock") as store:
            await KvStore(store).set_config({"productEnvName": "east"})

    run(change())
    result = command("up", "--data-dir", str(home / "data"), "-p")
    assert "productEnvName=east  (shared configuration)" in result.stdout.splitlines()
    assert "is not included" not in result.stderr


def test_print_config_leaves_out_what_the_compat_mode_does_not_know(command, redis_url):
    shown = command("serve", "--compat", "4.8", "--set", "supportActingMaster=true", "-p").stdout.splitlines()
    assert "supportActingMaster=false  (default)" in shown


def test_print_config_hides_the_password(command):
    result = command("sweep", "--redis", "redis://user:secret@127.0.0.1:1/0", "-p")
    assert "redis=redis://***@127.0.0.1:1/0  (flag --redis)" in result.stdout
    assert "secret" not in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shells_script(command, shell):
    assert "_MQREGISTRY_COMPLETE" in command("completion", shell).stdout


def test_completion_completes_commands(finished):
    result = finished(_MQREGISTRY_COMPLETE="bash_complete", COMP_WORDS="mqregistry cl", COMP_CWORD="1")
    assert result.stdout == "plain,clusters\n"


def test_completion_script_is_valid_bash(command):
    subprocess.run(["bash", "-n"], input=command("completion", "bash").stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("brokr",), "No such command 'brokr'. Did you mean 'broker'?"),
        (("front-end",), "No such command 'front-end'. Did you mean 'front-ends'?"),
        (("qqqq",), "No such command 'qqqq'."),
    ],
)
def test_a_command_that_is_not_there_suggests_one(words, said):
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2
    assert done.output.endswith(f"Error: {said}\n")
