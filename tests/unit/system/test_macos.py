"""macOS' page of the port, with its calls recorded; the files are real."""

import errno
import os

import pytest

from mcp_notarium.system.macos import F_FULLFSYNC, MacOS


@pytest.mark.parametrize("act", ["flush_file", "flush_folder"])
def test_each_flush_reaches_the_platter_or_else_the_drive(tmp_path, monkeypatch, act):
    asked, plain = [], []
    monkeypatch.setattr(os, "fsync", lambda _descriptor: plain.append(1))
    place = tmp_path / "file"
    place.write_bytes(b"x")
    place = place if act == "flush_file" else tmp_path
    getattr(MacOS(lambda _file, command: asked.append(command) or 0), act)(place)
    assert (asked, plain) == ([F_FULLFSYNC], [])

    def refuse(_file, _command):
        raise OSError(45, "not supported")

    getattr(MacOS(refuse), act)(place)
    assert plain == [1]

    def fail(_file, _command):
        raise OSError(errno.EIO, "the disk is broken")

    with pytest.raises(OSError, match="broken"):
        getattr(MacOS(fail), act)(place)


def test_an_export_is_flushed_with_the_names_in_its_folders_and_the_drive_once(
    tmp_path, monkeypatch
):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").touch()
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda file: flushed.append((os.fstat(file).st_ino, "")))
    system = MacOS(lambda file, _command: flushed.append((os.fstat(file).st_ino, "drive")) or 0)
    system.flush_below(tmp_path)
    places = {tmp_path / "inner": "", tmp_path / "inner/file": "", tmp_path: "drive"}
    assert flushed == [(one.stat().st_ino, how) for one, how in places.items()]


def test_debuggers_are_denied_with_the_arguments_of_the_manual():
    called = []

    class Library:
        class _Ptrace:
            def __call__(self, *arguments):
                called.append((len(self.argtypes), arguments))

        ptrace = _Ptrace()

    MacOS(load=Library).forbid_tracing()
    assert called == [(4, (31, 0, None, 0))]


def test_places_are_those_of_macos(monkeypatch):
    monkeypatch.setenv("HOME", "/Users/ada")
    found = MacOS().user_folder("data", {"XDG_DATA_HOME": "/x"})
    assert str(found) == "/Users/ada/Library/Application Support/mcp-notarium"
