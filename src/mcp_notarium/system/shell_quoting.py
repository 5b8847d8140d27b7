"""Write words for shells: POSIX' (zsh, too), and those of Windows."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[A-Za-z0-9_./:\\+=-]*[A-Za-z0-9_./:\\+=]")
"""A word of these needs no quotes in either shell of Windows; a word of dashes alone does."""
_SPECIAL = re.compile(r'["$`%\u201c-\u201e]')
"""What means something within double quotes in PowerShell or cmd; typographic quotes end a word in PowerShell."""
_AT_END = re.compile(r"(\\+)$")
"""A program takes a single backslash before a quote for a part of the word; PowerShell keeps both, which a path may have."""
_SINGLE = re.compile("(['\u2018-\u201b])")


def quote_posix(word: str) -> str:
    """Quote a word. zsh takes one that begins with `=` for a program's path."""
    import shlex  # noqa: PLC0415 - not every start shows a command

    quoted = shlex.quote(word)
    return f"'{word}'" if quoted == word and word[:1] == "=" else quoted


def quote_windows(word: str) -> str:
    """Quote a word for PowerShell and cmd, or for PowerShell alone if it cannot be written for both."""
    if _PLAIN.fullmatch(word):
        return word
    if not _SPECIAL.search(word):
        return '"' + _AT_END.sub(r"\1\1", word) + '"'
    return "'" + _SINGLE.sub(r"\1\1", word) + "'"
