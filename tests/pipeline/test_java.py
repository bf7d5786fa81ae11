import stat
import subprocess

import pytest

from mqregistry.errors import StartError
from mqregistry.pipeline.spark import java


def home(tmp_path, version, name="jdk"):
    folder = tmp_path / name
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text('#!/bin/sh\nfor arg do echo "<$arg>"; done\n')
    program.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_that_can_be_used_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path, "17.0.15")))
    assert java.find_java_home() == (tmp_path / "jdk", None)


@pytest.mark.parametrize(
    ("version", "expected"), [("1.8.0_412", "it is a Java 8, Spark needs 17"), ("11.0.2", "it is a Java 11")]
)
def test_java_home_too_old_the_packaged_one_is_used_and_it_is_said(tmp_path, monkeypatch, version, expected):
    monkeypatch.setenv("JAVA_HOME", str(home(tmp_path, version)))
    found, told = java.find_java_home()
    assert found != tmp_path / "jdk"
    assert expected in told


def test_java_home_without_java_and_no_package_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(java, "_packaged", lambda: None)
    with pytest.raises(StartError, match=r"no bin/java.*pip install 'mqregistry\[spark\]'"):
        java.find_java_home()


def test_no_java_home_the_packaged_java_starts_though_spark_asks_for_the_vector_module(monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found, told = java.find_java_home()
    assert not told
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    command = [str(found / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert "21.0" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


def test_only_that_option_is_left_out_whatever_the_others_hold(tmp_path, monkeypatch):
    folder = java._without_vector(home(tmp_path, "21.0.8", "it's here"))
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "it's", "*"]
    shown = subprocess.run([folder / "bin" / "java", *given], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines() == ["<-Xmx1g>", "<a b>", "<>", "<it's>", "<*>"]
