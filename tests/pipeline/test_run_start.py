"""What ``pipeline run`` and ``audit`` find wrong before they start Spark, and how a run ends when it is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest
import redis

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.cli.extras import extra
from mqregistry.errors import NoNamespace, StartError, StoreUnavailable
from mqregistry.pipeline import run as application
from mqregistry.pipeline.lake.lake import Lake, LakeError
from mqregistry.pipeline.spark import session
from mqregistry.store.keys import meta
from mqregistry.store.snapshot import read_head
from mqregistry.store.store import Store
from tests.cli.conftest import command, env, home  # noqa: F401 - fixtures
from tests.pipeline.plain_lake import PlainSilver

REDIS = ("--redis", "redis://127.0.0.1:1")


@pytest.fixture
def no_spark(monkeypatch):
    def started(**_):
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "open_session", started)


@pytest.fixture(autouse=True)
def handlers():
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("name", ["run", "audit", "backfill"])
@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--driver-memory", "abc", "'abc': expected a whole number with its unit: 512m, 2g"),
        ("--driver-memory", "0g", "expected a whole number"),
        ("--master", "foo", "'foo': expected local, local[N], local[*], yarn, spark://HOST:PORT"),
        ("--master", "local[x]", "expected local"),
    ],
)
def test_options_that_spark_would_refuse_are_wrong_usage(no_spark, command, name, option, value, said):  # noqa: F811
    assert said in " ".join(command("pipeline", name, option, value, expect=2).output.split())


def test_a_further_namespace_has_a_name_that_one_can_have(no_spark, command):  # noqa: F811
    result = command("pipeline", "run", "--also", "no/name", expect=2)
    assert "'no/name': expected 1 to 64 letters, digits, _ . or -" in " ".join(result.output.split())


@pytest.mark.parametrize("name", ["run", "backfill", "maintain", "requarantine"])
def test_a_setting_of_spark_is_a_pair(no_spark, command, name):  # noqa: F811
    for value in ("spark.ui.enabled", "ui.enabled=true"):
        result = command("pipeline", name, "--conf", value, expect=2)
        assert f"'{value}': expected KEY=VALUE, with a KEY that begins with spark." in " ".join(result.output.split())


@pytest.mark.parametrize("place", ["a file", "below a file", "/proc/lake", "s3://bucket/lake", "foo://bar"])
def test_a_lake_that_cannot_be_written_is_said_before_spark_starts(no_spark, command, tmp_path, place):  # noqa: F811
    (tmp_path / "file").touch()
    lake = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "lake"}.get(place, place)
    error = command("pipeline", "run", *REDIS, "--lake", str(lake), expect=1).exception
    assert isinstance(error, StartError)
    said = (
        f"--lake {lake}: a run writes only to a folder" if "://" in str(lake) else f"cannot write the lake at {lake}: "
    )
    assert said in str(error)


@pytest.fixture
def recorded(redis_url, namespace, tmp_path):
    """A lake that has a snapshot of this namespace; its folder, and how commands name both."""

    async def begin():
        async with Store(redis_url, namespace) as store:
            await store.connect()
            return (await read_head(store)).epoch

    PlainSilver().write(Lake(str(tmp_path / "lake")), namespace, asyncio.run(begin()))
    return tmp_path / "lake", ("--namespace", namespace, "--redis", redis_url, "--lake", str(tmp_path / "lake"))


def test_a_run_starts_spark_with_its_settings(command, tmp_path, monkeypatch):  # noqa: F811
    started = []

    def start(**options):
        started.append(options)
        raise StartError("enough")

    monkeypatch.setattr(session, "open_session", start)
    options = ("--lake", str(tmp_path), "--conf", "spark.a=b=c", "--jars", "/jars")
    assert str(command("pipeline", "run", "--once", *REDIS, *options, expect=1).exception) == "enough"
    del started[0]["tell"]
    assert started == [{"master": "local[*]", "driver_memory": "1g", "config": {"spark.a": "b=c"}, "jars": "/jars"}]


@pytest.mark.parametrize("place", ["empty", "a file", "not there", "another namespace"])
def test_an_audit_says_that_the_lake_has_nothing_before_spark_starts(
    no_spark, command, recorded, tmp_path, place  # noqa: F811
):  # fmt: skip
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    lake = {"a file": tmp_path / "file", "another namespace": recorded[0]}.get(place, tmp_path / place)
    more = ("--namespace", "another") if place == "another namespace" else ()
    result = command("pipeline", "audit", *recorded[1], "--lake", str(lake), *more, expect=1)
    assert isinstance(result.exception, LakeError)
    assert f"the lake at {lake} holds nothing of namespace" in str(result.exception)
    assert "starting Spark" not in result.stderr


def test_an_audit_says_that_redis_is_away_before_spark_starts(no_spark, command, recorded):  # noqa: F811
    result = command("pipeline", "audit", *recorded[1], *REDIS, expect=1)
    assert isinstance(result.exception, StoreUnavailable)
    assert "starting Spark" not in result.stderr


def test_an_audit_says_that_redis_began_anew_before_spark_starts(
    no_spark, command, recorded, redis_url, namespace  # noqa: F811
):  # fmt: skip
    with redis.Redis.from_url(redis_url) as client:
        client.hset(meta(namespace), "epoch", "another")
    error = command("pipeline", "audit", *recorded[1], expect=1).exception
    assert isinstance(error, LakeError)
    assert "since Redis began anew (epoch another): run 'mqregistry pipeline run --once' first" in str(error)
    with redis.Redis.from_url(redis_url) as client:
        client.delete(meta(namespace))
    assert isinstance(command("pipeline", "audit", *recorded[1], expect=1).exception, NoNamespace)


def test_an_audit_says_that_the_lake_cannot_be_written_before_spark_starts(
    no_spark, command, recorded  # noqa: F811
):  # fmt: skip
    (recorded[0] / "_checkpoints").touch()  # as good as a folder that belongs to somebody else
    error = command("pipeline", "audit", *recorded[1], expect=1).exception
    assert isinstance(error, StartError)
    assert f"cannot write the lake at {recorded[0]}: " in str(error)


def test_a_lake_of_an_earlier_release_is_refused(command, tmp_path):  # noqa: F811
    (tmp_path / "state").mkdir()
    error = command("pipeline", "run", *REDIS, "--lake", str(tmp_path), expect=1).exception
    assert isinstance(error, LakeError)
    assert "was written by an earlier release" in str(error)
    assert "--lake DIR" in str(error)


@pytest.mark.parametrize("lacking", ["pyspark", "py4j", "pyarrow", "deltalake"])
def test_without_the_extra_it_says_how_to_install_it(env, lacking):  # noqa: F811
    run = f"import sys; sys.modules[{lacking!r}] = None; from mqregistry.__main__ import main; main()"
    lake = ("--lake", env["HOME"] + "/lake")
    done = subprocess.run([sys.executable, "-c", run, "pipeline", "run", *REDIS, *lake], env=env, capture_output=True,
                          text=True, check=False, timeout=60)  # fmt: skip
    wanted = f"mqregistry: cannot start: this command needs {lacking}: pip install 'mqregistry[spark]'\n"
    wanted += "See: mqregistry help missing-extra\n"
    assert (done.returncode, done.stderr) == (253, wanted)


def test_an_error_of_our_own_imports_is_not_taken_for_a_missing_extra():
    for name in ("mqregistry.pipeline.gone", "asyncio.gone"):
        with pytest.raises(ModuleNotFoundError), extra("spark"):
            raise ModuleNotFoundError(name=name)


def test_ctrl_c_ends_the_wait_for_spark_at_once():
    ended = threading.Event()

    def start():
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait(60)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        session._started(start, "local[1]")
    assert not ended.is_set()
    ended.set()


def test_ctrl_c_while_spark_starts_says_that_it_ends(command, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(session, "open_session", lambda **_: signal.raise_signal(signal.SIGINT))
    cluster = ("--master", "spark://127.0.0.1:1")  # on this machine it starts when it is needed
    result = command("pipeline", "run", "--once", *REDIS, "--lake", str(tmp_path), *cluster, expect=1)
    assert "mqregistry: stopped\n" in result.stderr
    assert "Aborted!" in result.stderr, "which main() makes 130 of"


def test_spark_that_does_not_start_is_one_line():
    from pyspark.errors import PySparkRuntimeError

    def start():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    with pytest.raises(StartError, match=r"^Spark with --master local\[1\] did not start: .*JAVA_GATEWAY_EXITED.*$"):
        session._started(start, "local[1]")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_single_round_that_was_interrupted_is_no_success(command, tmp_path, monkeypatch, number, status):  # noqa: F811
    monkeypatch.setattr(session, "open_session", lambda **_: None)
    monkeypatch.setattr(session, "ending", lambda spark: contextlib.nullcontext())

    def interrupted(*_, stop, **__):
        signal.raise_signal(number)
        assert stop.is_set()

    monkeypatch.setattr(application, "run", interrupted)
    once = command("pipeline", "run", "--once", *REDIS, "--lake", str(tmp_path), expect=status)
    assert "mqregistry: stopping; Ctrl-C once more stops at once" in once.stderr
    command("pipeline", "run", *REDIS, "--lake", str(tmp_path), expect=0)
