"""Caches: what is kept comes back as it was or not at all, and nothing that happens to them is an error."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from attnspec.data.store import MEASURED, Store, cache_folder, code_of, digest, fault_of, size_of

KEY = digest("a", "b")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def store(folder):
    return Store("things", 1000)


def entries(folder):
    return sorted(path.name for path in (folder / "things").iterdir())


def test_what_is_kept_comes_back(store, folder):
    assert store.get(KEY) is None
    store.put(KEY, b"content")
    assert (b"content", None, [KEY]) == (store.get(KEY), store.get(digest("c")), entries(folder))


def test_a_key_tells_where_one_part_ends():
    assert 3 == len({digest("ab"), digest("a", "b"), digest("", "ab")})
    assert digest("é") == digest("é".encode())


def test_the_digest_of_a_package_is_that_of_its_own_sources(monkeypatch):
    def packaged(name, **files):
        for path, text in {"__init__": "", **files}.items():
            file = Path(name, *path.split("/")).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return code_of(name)

    monkeypatch.syspath_prepend(str(Path.cwd()))
    known = packaged("one", a="x = 1")
    assert known == packaged("two", a="x = 1")
    others = packaged("three", a="x = 2"), packaged("four", b="x = 1"), packaged("five", a="x = 1", b="")
    assert 4 == len({known, *others})
    assert known == packaged("six", a="x = 1", **{"below/__init__": "y = 2"})


def test_the_folder_is_the_users_alone(store, folder):
    store.put(KEY, b"content")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "things", folder / "things" / KEY)]
    assert [0o700, 0o700, 0o600] == modes


def damaged(path):
    raw = path.read_bytes()
    yield b""
    yield raw[:-1]
    yield raw[:10]
    yield raw + b"x"
    yield raw[:-1] + b"x"
    yield b"\0" * len(raw)


def test_an_entry_that_is_damaged_is_dropped(store, folder):
    store.put(KEY, b"content")
    path = folder / "things" / KEY
    for raw in damaged(path):
        path.write_bytes(raw)
        assert (None, False) == (store.get(KEY), path.exists())
        store.put(KEY, b"content")
    assert b"content" == store.get(KEY)


def test_an_entry_under_another_key_is_dropped(store, folder):
    store.put(KEY, b"content")
    other = digest("other")
    (folder / "things" / KEY).rename(folder / "things" / other)
    assert (None, []) == (store.get(other), entries(folder))


def test_an_entry_that_its_reader_drops_is_gone(store):
    store.put(KEY, b"content")
    store.drop(KEY)
    store.drop(KEY)
    assert store.get(KEY) is None


@pytest.mark.parametrize(
    ("mode", "fault"), [(0o770, "other users may write to it"), (0o707, "other users may write to it")]
)
@pytest.mark.parametrize("inner", [False, True])
def test_a_folder_that_others_may_write_to_is_not_used(store, folder, mode, fault, inner):
    store.put(KEY, b"content")
    changed = folder / "things" if inner else folder
    changed.chmod(mode)
    store.put(digest("new"), b"content")
    assert (None, [KEY], fault) == (store.get(KEY), entries(folder), fault_of(changed))


def test_a_folder_of_another_user_is_not_used(store, folder, monkeypatch):
    store.put(KEY, b"content")
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    store.put(digest("new"), b"content")
    assert (None, [KEY], "it belongs to another user") == (store.get(KEY), entries(folder), fault_of(folder))


def test_what_cannot_be_written_is_not_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for chosen in (tmp_path / "file", tmp_path / "file" / "below", "/proc/attnspec", "/proc/self/attnspec/x"):
        monkeypatch.setenv("ATTNSPEC_CACHE", str(chosen))
        Store("things", 1000).put(KEY, b"content")
        assert Store("things", 1000).get(KEY) is None


def test_a_full_disk_leaves_nothing_behind(store, folder, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    store.put(KEY, b"content")
    monkeypatch.setattr(os, "replace", full)
    store.put(digest("new"), b"content")
    assert [KEY] == entries(folder)


def test_a_folder_that_others_fill_is_bounded_once_in_a_while(store, folder):
    store.put(KEY, b"content")

    def filled(*names):
        for at, name in enumerate(names):
            (folder / "things" / name).write_bytes(b"x" * 400)
            os.utime(folder / "things" / name, (1000 + at, 1000 + at))

    filled("a", "b", "c")
    store.bound()
    assert [KEY, "c", MEASURED] == entries(folder)
    filled("d", "e")
    store.bound()
    assert [KEY, "c", "d", "e", MEASURED] == entries(folder)
    os.utime(folder / "things" / MEASURED, (0, 0))
    store.bound()
    assert [KEY, "c", MEASURED] == entries(folder)


def test_nothing_is_kept_where_it_is_off(monkeypatch):
    monkeypatch.setenv("ATTNSPEC_CACHE", "off")
    Store("things", 1000).put(KEY, b"content")
    assert (None, None) == (cache_folder(), Store("things", 1000).get(KEY))


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="they have folders of their own")
def test_the_folder_is_where_the_platform_has_caches(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTNSPEC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert tmp_path / "attnspec" == cache_folder()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path / ".cache/attnspec" == cache_folder()


def test_what_was_used_least_recently_goes_first(store, folder):
    keys = [digest(str(i)) for i in range(5)]
    for age, key in enumerate(keys):
        store.put(key, bytes(150))
        os.utime(folder / "things" / key, (age, age))
    assert bytes(150) == store.get(keys[0])
    Store("things", 1000).put(digest("new"), bytes(150))
    assert sorted([*keys[3:], keys[0], digest("new")]) == entries(folder)
    assert size_of(folder) <= 750


def test_the_bound_holds_while_one_process_writes(store, folder):
    for i in range(40):
        store.put(digest(str(i)), bytes(100))
        assert size_of(folder) <= 1000


def test_an_entry_that_is_a_large_part_of_the_bound_is_not_kept(store):
    store.put(KEY, bytes(300))
    assert store.get(KEY) is None


def test_processes_that_write_at_once_disturb_nobody(store, folder):
    script = """if True:
        import sys
        from attnspec.data.store import Store, digest
        store = Store("things", 3000)
        for i in range(200):
            key = digest(str(i % 7))
            assert store.get(key) in (None, (b"%d" % (i % 7)) * 500), key
            store.put(key, (b"%d" % (i % 7)) * 500)
    """
    running = [subprocess.Popen([sys.executable, "-c", script], env={**os.environ}) for _ in range(2)]
    assert [0, 0] == [process.wait(60) for process in running]
    assert not [name for name in entries(folder) if name.startswith("new-")]
