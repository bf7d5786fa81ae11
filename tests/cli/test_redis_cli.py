"""``mqregistry redis-cli``: where it finds Redis, what it tells redis-cli, and what it shows without one."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from mqregistry.cli import cli
from mqregistry.cli.read import redis_cli
from mqregistry.cli.read.redis_cli import connection_options, reply_lines
from mqregistry.store.connection.url import parse_url

from .process.world import ROOT


@pytest.mark.parametrize(
    ("url", "options", "password"),
    [
        ("redis://10.0.0.5", "-h 10.0.0.5 -p 6379", ""),
        ("redis://me:p%40ss@10.0.0.5:7000/3", "-h 10.0.0.5 -p 7000 -n 3 --user me", "p@ss"),
        ("unix:///tmp/a%20b/redis.sock?db=2", "-s /tmp/a b/redis.sock -n 2", ""),
        ("redis+cluster://me:secret@a:7000,b:7001", "-c -h a -p 7000 --user me", "secret"),
        ("rediss://a?ssl_ca_certs=ca.pem&ssl_certfile=c.pem&ssl_keyfile=k.pem",
         "-h a -p 6379 --tls --cacert ca.pem --cert c.pem --key k.pem", ""),
        ("rediss://a?ssl_cert_reqs=none", "-h a -p 6379 --tls --insecure", ""),
    ],
)  # fmt: skip
def test_a_url_becomes_options_and_the_password_stays_out_of_them(url, options, password):
    found, secret = connection_options(parse_url(url), timeout_ms=100)
    assert " ".join(found) == options
    assert secret == password


def test_the_password_may_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("MQREGISTRY_REDIS_PASSWORD", "of-the-environment")
    assert connection_options(parse_url("redis://a"), timeout_ms=100)[1] == "of-the-environment"


def test_replies_are_shown_as_redis_cli_shows_them():
    reply = [b"1-0", [b"e", 5, None], b'\xff\n\x1b"', [], *[b"x"] * 6]
    assert list(reply_lines(reply))[:7] == [
        ' 1) "1-0"',
        ' 2) 1) "e"',
        "    2) (integer) 5",
        "    3) (nil)",
        ' 3) "\\xff\\n\\x1b\\""',
        " 4) (empty array)",
        ' 5) "x"',
    ]
    assert list(reply_lines(reply))[-1] == '10) "x"'


@pytest.fixture
def without_redis_cli(monkeypatch):
    monkeypatch.setattr(redis_cli, "find_redis_cli", lambda: None)


def call(*arguments):
    done = CliRunner().invoke(cli, ["redis-cli", *arguments])
    return done.exit_code, done.output


def test_texts_are_quoted_as_redis_cli_quotes_them():
    assert redis_cli.quoted('ä"\\\n\r\t\a\b\0~'.encode()) == r'"\xc3\xa4\"\\\n\r\t\a\b\x00~"'


def test_without_redis_cli_what_is_piped_is_raw_and_texts_are_as_they_are(run, bed, redis_url, without_redis_cli):
    run(bed.kv.put("n", "ä", "a\nb"))
    key = bed.key("kv:n")
    redis = ("--redis", redis_url)
    assert call(*redis, "HGETALL", key) == (0, "ä\na\nb\n")
    assert call(*redis, "--no-raw", "HGETALL", key) == (0, '1) "\\xc3\\xa4"\n2) "a\\nb"\n')
    assert call(*redis, "HGET", key, "none") == (0, "\n")
    assert call(*redis, "HLEN", key) == (0, "1\n")
    assert call(*redis, "--no-raw", "TYPE", key) == (0, "hash\n")
    assert call(*redis, "--no-raw", "PING") == (0, "PONG\n")
    code, info = call(*redis, "--no-raw", "INFO", "server")
    assert (code, "\r\ntcp_port:" in info or "\ntcp_port:" in info, info.startswith("# Server")) == (0, True, True)


def test_without_redis_cli_it_scans(run, bed, redis_url, without_redis_cli):
    run(bed.kv.put("n", "key", "value"))
    redis = ("--redis", redis_url, "--scan", "--pattern", bed.key("kv:*"), "--count", "1000")
    assert call(*redis) == (0, f"{bed.key('kv:n')}\n")
    assert call("--redis", redis_url, "--no-raw", *redis[2:]) == (0, f'"{bed.key("kv:n")}"\n')


def test_without_redis_cli_one_command_is_sent_and_its_reply_shown(run, bed, redis_url, without_redis_cli):
    run(bed.kv.put("n", "key", "value"))
    key = bed.key("kv:n")
    redis = ("--redis", redis_url, "--no-raw")
    assert call(*redis, "hgetall", key) == (0, '1) "key"\n2) "value"\n'), "not as a dict of redis-py's"
    assert call(*redis, "HLEN", key) == (0, "(integer) 1\n")


def test_without_redis_cli_it_runs_the_scripts_of_the_page(run, bed, redis_url, without_redis_cli):
    run(bed.register(topics={"orders": (8, 8, 6), "bills": (4, 4, 6)}))
    script = ("--redis", redis_url, "--eval", str(ROOT / "lua" / "inspect" / "topics.lua"), bed.key("meta"))
    assert call(*script, ",", "ord*", "100")[1].startswith("orders: ")
    assert {line.split(":")[0] for line in call(*script)[1].splitlines()} == {"orders", "bills"}
    code, output = call(*script[:3], "nowhere.lua", bed.key("meta"))
    assert (code, "cannot read nowhere.lua: No such file" in output) == (1, True)


def test_without_redis_cli_there_is_no_prompt_and_no_option(redis_url, without_redis_cli):
    for arguments in ((), ("--latency",), ("--scan", "PING"), ("--pattern",), ("--eval",)):
        code, output = call("--redis", redis_url, *arguments)
        assert code == 1
        assert "redis-cli is not installed here" in output
        assert "give one Redis command" in output


def test_it_finds_the_redis_of_the_up_that_runs_here(start_up, finished):
    start_up()
    done = finished("redis-cli", "HGET", "mq:{default}:meta", "schema")
    assert (done.returncode, done.stdout.strip().strip('"')) == (0, "2")


def test_redis_cli_gets_the_arguments_as_they_are(home, monkeypatch):
    program = home / "redis-cli"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(redis_cli.sys, "executable", str(home / "python"))
    assert redis_cli.find_redis_cli() == str(program)
    launched = []
    monkeypatch.setattr(redis_cli.os, "execve", lambda *call: launched.append(call) or exit(0))
    assert call("--redis", "redis://:secret@a/1", "--scan", "--pattern", "mq:*")[0] == 0
    ((path, arguments, environment),) = launched
    assert (path, environment["REDISCLI_AUTH"]) == (str(program), "secret")
    assert arguments[1:] == ["-h", "a", "-p", "6379", "-n", "1", "--scan", "--pattern", "mq:*"]
