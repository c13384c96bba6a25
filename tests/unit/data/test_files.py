"""Files from outside: only a regular file of bounded size is read, and only UTF-8 is text."""

import os
import sys
import threading
from pathlib import Path

import pytest

from attnspec.data import files
from attnspec.data.files import read_bytes, read_text
from attnspec.errors import SpecError


def told(path, most=100, **more):
    with pytest.raises(SpecError) as caught:
        read_text(path, most, **more)
    return str(caught.value)


def test_a_text_is_read_whole(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes("naïve\n".encode())
    assert ("naïve\n", "naïve\n".encode()) == (read_text(path, 7), read_bytes(path, 7))


def test_a_missing_file_is_told(tmp_path):
    assert "cannot read a.yaml: No such file or directory" == told(tmp_path / "a.yaml", name="a.yaml")


def test_a_folder_is_told(tmp_path):
    assert "cannot read here: not a file, but a folder" == told(tmp_path, name="here")


def test_one_byte_too_many_is_told(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1001)
    expected = "cannot read a: it has more than 1,000 bytes, the limit for such a file"
    assert expected == told(path, 1000, name="a")


@pytest.mark.parametrize(
    ("raw", "place", "byte"),
    [(b"\xff", "1:1", "0xff"), (b"a\nb\ncaf\xe9 x\n", "3:4", "0xe9"), ("é\n".encode() + b"\xc3", "2:1", "0xc3")],
)
def test_what_is_not_utf8_is_told_with_its_line(tmp_path, raw, place, byte):
    path = tmp_path / "a"
    path.write_bytes(raw)
    assert f"a:{place}: not UTF-8: the byte {byte}; save the file as UTF-8" == told(path, name="a")


def test_a_pipe_is_not_opened(tmp_path):
    path = tmp_path / "a"
    os.mkfifo(path)
    found = []
    thread = threading.Thread(target=lambda: found.append(told(path, name="a")), daemon=True)
    thread.start()
    thread.join(60)
    assert ["cannot read a: not a file, but a pipe, a socket or a device"] == found


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/tty"])
def test_a_device_is_not_opened(device, tmp_path):
    (tmp_path / "a").symlink_to(device)
    assert "cannot read a: not a file, but a pipe, a socket or a device" == told(tmp_path / "a", name="a")


def test_a_name_that_no_file_can_have_is_told_in_one_line(tmp_path):
    assert r"cannot read a\x00\nb: embedded null byte" == told(tmp_path / "a\0\nb", name="a\0\nb")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere every file tells its size")
def test_a_file_that_tells_no_size_is_read_whole_or_told():
    path = Path("/proc/self/status")
    assert b"VmHWM" in read_bytes(path, 1 << 20)
    assert "cannot read it: it has more than 100 bytes, the limit for such a file" == told(path, name="it")


@pytest.mark.parametrize(("length", "whole"), [(999, True), (1000, True), (1001, False)])
def test_a_file_that_grows_while_it_is_read_is_read_up_to_the_limit(tmp_path, monkeypatch, length, whole):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 10)
    known = os.fstat

    def fstat(opened):
        found = known(opened)
        path.write_bytes(b"x" * length)
        return found

    monkeypatch.setattr(files.os, "fstat", fstat)
    if whole:
        assert length == len(read_bytes(path, 1000))
    else:
        assert "it has more than 1,000 bytes" in told(path, 1000)
