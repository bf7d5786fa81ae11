"""What ``up`` writes is its user's alone: folders 0700, every file in them 0600, whatever the umask says."""

from __future__ import annotations

import os
import stat

import pytest


def modes(folder):
    """Path within the folder -> its mode, for the folder ("."), and everything in it but folders that are closed."""
    found = {path.relative_to(folder).as_posix(): path for path in [folder, *folder.rglob("*")]}
    told = {name: stat.S_IMODE(path.lstat().st_mode) for name, path in found.items()}
    # a server from version 7 on keeps several append-only files in a folder
    return {name: mode for name, mode in told.items() if name == "." or not (found[name].is_dir() and mode == 0o700)}


@pytest.fixture
def open_umask():
    """What nobody should have, and some have."""
    before = os.umask(0)
    yield
    os.umask(before)


def test_nobody_else_may_read_what_it_writes(world, open_umask):
    data, log = world.folder / "new" / "d", world.folder / "up.log"
    up = world.up("--data-dir", data, "--log-file", log)
    found = modes(data)
    assert {"up.lock", "up.json", "redis.lock", "redis.sock", "redis.log"} <= set(found)
    assert [name for name in found if "appendonly.aof" in name]
    assert found.pop(".") == 0o700
    assert set(found.values()) == {0o600}
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert {stat.S_IMODE(state.stat().st_mode) for state in world.states()} == {0o600}
    assert stat.S_IMODE(data.parent.stat().st_mode) == 0o700  # made on the way
    assert up.interrupt() == 0


def test_what_an_earlier_release_left_open_is_closed_and_told(world):
    data = world.folder / "d"
    world.up("--data-dir", data).interrupt()
    (data / "redis.log.1").write_text("")
    for path in [data, *data.iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    up = world.up("--data-dir", data)
    found = modes(data)
    assert found.pop(".") == 0o700
    assert set(found.values()) == {0o600}
    assert f"others may look into the data folder {data} (mode 0755): now nobody else may" in up.err
    assert up.interrupt() == 0
    up = world.up("--data-dir", data)
    assert "data folder" not in up.err.replace("tables in", "")
    assert up.interrupt() == 0


def test_a_folder_with_other_files_keeps_its_mode_and_is_told(world):
    """It may be a home, or shared: only our files in it are closed."""
    data = world.folder / "home"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    theirs = data / "letter.txt"
    theirs.write_text("")
    theirs.chmod(0o644)
    (data / "dump.rdb").symlink_to(theirs)  # a link with a name of ours does not lead to a file of theirs
    up = world.up("--data-dir", data)
    found = modes(data)
    assert found.pop(".") == 0o755
    assert found.pop("letter.txt") == 0o644
    assert found.pop("dump.rdb") == 0o777
    assert set(found.values()) == {0o600}
    assert f"others may look into the data folder {data} (mode 0755), and it holds other files than ours" in up.err
    assert "chmod 700 it, or choose another --data-dir" in up.err
    assert up.interrupt() == 0


def test_an_empty_folder_is_closed(world):
    data = world.folder / "empty"
    data.mkdir()
    data.chmod(0o755)
    up = world.up("--data-dir", data)
    assert modes(data)["."] == 0o700
    assert up.interrupt() == 0
