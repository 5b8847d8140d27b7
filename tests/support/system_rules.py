"""Say by which rules the simulated systems act, and by which page of their makers' documentation each of them is one.

A test that rests on a rule is marked ``@pytest.mark.rule(NAME)``; it fails if the rule has not acted in it
(``tests/simulated/conftest.py``). ``docs/simulated-systems.md`` is made from both.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """Hold what a system does, and the page that says so."""

    system: str
    words: str
    page: str


def _windows(words: str, page: str) -> Rule:
    return Rule("Windows", words, page)


def _macos(words: str, page: str) -> Rule:
    return Rule("macOS", words, page)


_NAMES = "Naming Files, Paths, and Namespaces"
_CREATE, _REPLACE, _MOVE = "CreateFileW function", "ReplaceFileW function", "MoveFileExW function"
_APFS = "Apple File System Guide, FAQ"

RULES = {
    "letter case": _windows("names that differ in letter case are one; the first spelling is kept", _NAMES),
    "prefix is literal": _windows(r"behind `\\?\` nothing is normalized: `.`, `..` and `/` are no parts of a path", _NAMES),
    "longest path": _windows(r"a path without `\\?\` has less than 260 characters", "Maximum Path Length Limitation"),
    "trailing dots and blanks": _windows(r"dots and blanks at the end of a name are dropped, except behind `\\?\`", _NAMES),
    "device names": _windows(r"CON, NUL, COM1 and others are devices, with any ending, except behind `\\?\`", _NAMES),
    "characters of names": _windows('control characters and `<>:"/\\|?*` are in no name: 123', _NAMES),
    "short names": _windows("a name that is not of the form 8.3 has a second one of it, by which it is found, too: `NOTES~1.MD`", _NAMES + "; [MS-FSCC] 2.1.5.2.1"),
    "streams": _windows("`name:stream` is another content of the file", "File Streams"),
    "links are followed": _windows("a link in the middle of a path is followed, at its end unless FILE_FLAG_OPEN_REPARSE_POINT is set", _CREATE),
    "an empty folder becomes a link": _windows("an empty folder becomes a link, also while it is open", "FSCTL_SET_REPARSE_POINT ([MS-FSA] 2.1.5.10.37)"),
    "share modes": _windows("a handle that does not share what another one asks for, or the reverse: 32", _CREATE),
    "attributes are always shared": _windows("a handle for attributes alone neither blocks another nor is blocked", _CREATE),
    "a folder needs backup semantics": _windows("a folder is opened with FILE_FLAG_BACKUP_SEMANTICS only: 5", _CREATE),
    "read-only": _windows("a read-only file is not written, deleted or replaced: 5", "DeleteFileW function"),
    "scanner": _windows("a virus scanner opens what was written, and does not share its deletion", "Creating and Opening Files"),
    "deletion is pending": _windows("the name of a deleted file that is open stays, and cannot be opened: 5 or 303", "DeleteFileW function"),
    "deleted at the last close": _windows("it is gone when its last handle is closed", "DeleteFileW function"),
    "a move replaces only if asked": _windows("a move without MOVEFILE_REPLACE_EXISTING to a name that is taken: 183", _MOVE),
    "folders are not replaced": _windows("a move replaces no folder, and a folder is not moved with MOVEFILE_REPLACE_EXISTING: 5", _MOVE),
    "an open file is not replaced": _windows("a move over a file that is open: 5", "FileRenameInformation ([MS-FSCC] 2.4.42)"),
    "a folder in use is not renamed": _windows("a folder is not renamed while something below it is open: 5", "FileRenameInformation ([MS-FSA] 2.1.5.15.11)"),
    "a replacement is opened alone": _windows("ReplaceFileW opens the replacement without sharing it", _REPLACE),
    "a replacement fails half way": _windows("1175 and 1176: both files keep their names; 1177: the replaced one has the backup's", _REPLACE),
    "a replacement fails whole": _windows("after any other error both files have their names, and there is no backup", _REPLACE),
    "a replacement has another id": _windows("what stands there then has the file id of the replacement", _REPLACE),
    "a replacement keeps the time of creation": _windows("it gets the time of creation of the replaced file", _REPLACE),
    "a replacement keeps streams": _windows("it gets the named streams of the replaced file", _REPLACE),
    "flush needs write access": _windows("a handle that was not opened for writing is not flushed", "FlushFileBuffers function"),
    "a drive may be empty": _windows("the first listing of a drive without entries: 2", "FileBothDirectoryInformation ([MS-FSA] 2.1.5.6.3)"),
    "a disk without a mount manager": _windows("a volume that the mount manager does not know has no path with a drive: 1, 3 or 1005", "GetFinalPathNameByHandleW function; virtual disks of ImDisk and WinFsp"),
    "placeholders": _windows("opening a placeholder for its data fetches it from the cloud", "File Attribute Constants"),
    "placeholders are listed": _windows("a listing shows a placeholder by its attributes, and fetches nothing", "File Attribute Constants"),
    "a handle does what it was opened for": _windows("a handle without DELETE neither renames nor deletes: 5", "SetFileInformationByHandle function"),
    "coarse times": _windows("FAT keeps the time of writing in steps of two seconds", "File Times"),
    "ids of places": _windows("FAT makes the id of a file of the place of its entry: a move gives it another one", "BY_HANDLE_FILE_INFORMATION structure"),
    "names in any case": _macos("names that differ in letter case are one; the first spelling is kept", _APFS),
    "names in any normal form": _macos("composed and decomposed letters are one; the first spelling is kept", _APFS),
    "exchange": _macos("RENAME_SWAP exchanges two files in one step", "rename(2)"),
    "exclusive rename": _macos("RENAME_EXCL: EEXIST if the name is taken, in any spelling", "rename(2)"),
    "no flags everywhere": _macos("a file system that knows no flags: ENOTSUP", "rename(2)"),
    "attributes": _macos("an open file has extended attributes, which are read and set by number", "getxattr(2), setxattr(2)"),
    "copied attributes": _macos("COPYFILE_XATTR copies extended attributes of any size", "copyfile(3)"),
    "access lists": _macos("COPYFILE_ACL copies the access list", "copyfile(3)"),
    "denied attributes": _macos("an access list that denies writeattr or writeextattr: EACCES", "chmod(1)"),
    "flags": _macos("a new file has no flags (UF_HIDDEN is one) until it is given them", "chflags(2)"),
    "time of creation": _macos("ATTR_CMN_CRTIME of a file can be set", "setattrlist(2)"),
    "dataless files": _macos("a file with SF_DATALESS has no content here; opening it fetches that", "stat(2), chflags(2)"),
    "lists are handed down": _windows("what is created without a list of rights gets the entries that its folder hands down", "ACE Inheritance Rules"),
    "databases share no deletion": _windows("SQLite opens its files for reading and writing, and does not share their deletion: 32", "SQLite, src/os_win.c, winOpen"),
    "locks": _windows("a lock is a range of bytes of one handle; a second one over it: 33", "LockFileEx function"),
}  # fmt: skip
"""Name -> rule."""
