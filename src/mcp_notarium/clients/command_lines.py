"""Write words as a line that a person can paste: for POSIX shells and zsh, or for PowerShell and cmd alike.

In PowerShell `--` must be quoted: the scripts that npm makes for a program would swallow a bare one.
"""

from __future__ import annotations

import re
import shlex

_PLAIN = re.compile(r"[A-Za-z0-9_./:\\+=-]*[A-Za-z0-9_./:\\+=]")
"""A word of these needs no quotes in either shell of Windows; a word of dashes alone does."""
_SPECIAL = re.compile(r'["$`%\u201c-\u201e]')
"""What means something within double quotes in PowerShell or cmd; typographic quotes end a word in PowerShell."""
_SINGLE = re.compile("(['\u2018-\u201b])")


def command_line(words: list[str], platform: str) -> str:
    """Return the line. On Windows it is for both shells, or for PowerShell alone if a word cannot be written for both."""
    if platform == "win32":
        return " ".join(map(_windows_word, words))
    # zsh takes a word that begins with `=` for a program's path.
    return " ".join(f"'{word}'" if word[:1] == "=" else shlex.quote(word) for word in words)


def _windows_word(word: str) -> str:
    if _PLAIN.fullmatch(word):
        return word
    if not _SPECIAL.search(word):
        return f'"{word}"'
    return "'" + _SINGLE.sub(r"\1\1", word) + "'"
