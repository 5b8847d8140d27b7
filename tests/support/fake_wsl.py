"""Lay out a distribution of WSL: a drive of Windows below a folder, and the programs that WSL has for the border.

The programs are scripts that keep to the documented forms: `wslpath -u` for paths, `cmd.exe /u /c set` in UTF-16, and
`wsl.exe --exec`, which starts words without a shell and passes no variable on.
"""

from __future__ import annotations

import sys
from pathlib import Path

DISTRIBUTION = "Ubuntu-24.04"
_WSLPATH = """
import sys
path = sys.argv[2].replace("\\\\", "/")
assert sys.argv[1] == "-u" and path.startswith("C:/")
print({drive!r} + path[2:])
"""
_CMD = """
import sys
assert sys.argv[1:] == ["/d", "/u", "/c", "set"]
sys.stdout.buffer.write("\\r\\n".join({lines!r}).encode("utf-16-le"))
"""
_WSL = """
import os, sys
assert sys.argv[1:6] == {words!r}, sys.argv
os.execve(sys.argv[6], sys.argv[6:], {{"HOME": {home!r}, "PATH": "/usr/bin:/bin"}})
"""


def make(folder: Path, user: str, person: str, **moved: str) -> tuple[dict[str, str], Path]:
    """Return the environment of a shell in the distribution, and the person's folder on the drive."""
    home, drive, tools = folder / "home", folder / "mnt" / "c", folder / "bin"
    system = drive / "Windows" / "System32"
    theirs = drive / "Users" / person
    for one in (home, tools, system, theirs):
        one.mkdir(parents=True)
    profile = f"C:\\Users\\{person}"
    variables = {
        "APPDATA": profile + r"\AppData\Roaming", "LOCALAPPDATA": profile + r"\AppData\Local",
        "SystemRoot": r"C:\Windows", "TOKEN": "theirs", "USERPROFILE": profile,
    } | moved  # fmt: skip
    words = ["--distribution", DISTRIBUTION, "--user", user, "--exec"]
    _program(tools / "wslpath", _WSLPATH.format(drive=str(drive)))
    _program(
        system / "cmd.exe", _CMD.format(lines=[f"{one}={text}" for one, text in variables.items()])
    )
    _program(system / "wsl.exe", _WSL.format(words=words, home=str(home)))
    env = {
        "HOME": str(home), "NOTARIUM_KEYCHAIN": "off", "WSL_DISTRO_NAME": DISTRIBUTION,
        "PATH": f"{tools}:/usr/bin:/bin:{drive}/Program Files/Microsoft VS Code/bin",
    }  # fmt: skip
    return env, theirs


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!{sys.executable} -I\n{text}", encoding="utf-8")
    path.chmod(0o755)
