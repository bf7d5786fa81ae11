"""Delta's jars: where they come from, and what is said of it."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

from mqregistry.errors import StartError
from mqregistry.pipeline.spark import jars


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch, tmp_path):
    monkeypatch.delenv(jars.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def fill(folder):
    folder.mkdir(parents=True)
    for jar in jars.DELTA:
        (folder / jar.file).touch()
    return folder


def test_without_a_folder_spark_fetches_them_and_the_user_reads_what_from_where():
    settings, said = jars.delta_settings(None, {"spark.jars.packages": "a:b:1"})
    named = [jar.coordinates for jar in jars.DELTA]
    assert settings == {"spark.jars.packages": ",".join(["a:b:1", *named])}
    assert all(text in said for text in [*named, jars.CENTRAL, "pipeline jars DIR"])


def test_a_folder_comes_from_the_option_the_environment_or_the_cache(monkeypatch, tmp_path):
    own, of_variable, of_option = (fill(folder) for folder in (jars.own_folder(), tmp_path / "v", tmp_path / "o"))

    def taken(option=None):
        settings, said = jars.delta_settings(option, {"spark.jars": "/x.jar"})
        assert said is None
        first, *rest = settings["spark.jars"].split(",")
        assert first == "/x.jar"
        assert [path.rpartition("/")[2] for path in rest] == [jar.file for jar in jars.DELTA]
        return rest[0].rpartition("/")[0]

    assert taken() == str(own)
    monkeypatch.setenv(jars.VARIABLE, str(of_variable))
    assert taken() == str(of_variable)
    assert taken(str(of_option)) == str(of_option)


def test_what_the_user_names_for_spark_counts():
    assert jars.delta_settings(None, {"spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.1"}) == ({}, None)


def test_a_folder_that_lacks_one_is_refused_with_what_to_do(tmp_path):
    fill(tmp_path / "jars")
    (tmp_path / "jars" / jars.DELTA[1].file).unlink()
    with pytest.raises(StartError, match=r"lacks delta-storage-4\.4\.0\.jar: 'mqregistry pipeline jars "):
        jars.delta_settings(str(tmp_path / "jars"), {})


def test_a_jar_that_is_not_what_it_should_be_is_not_kept(monkeypatch, tmp_path):
    def wrong(jar, folder):
        (folder / jar.file).write_bytes(b"something else")

    monkeypatch.setattr(jars, "_by_maven", wrong)
    monkeypatch.setattr(jars, "_by_https", wrong)
    with pytest.raises(StartError, match=r"has a wrong SHA-256"):
        jars.fetch(tmp_path)
    assert not list(tmp_path.iterdir())


def test_jars_that_are_there_are_not_fetched_again(delta_jars, monkeypatch, tmp_path):
    from pathlib import Path

    monkeypatch.setattr(jars, "_by_maven", None)
    monkeypatch.setattr(jars, "_by_https", None)
    assert jars.fetch(Path(delta_jars)) == []
