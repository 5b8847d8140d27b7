"""Test what a person sees of a note: all of its words, rendered, in a pager if it is long; a program gets its bytes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from notarium_devtools.simperium import Simulator
from support.terminal import Terminal
from support.whole import environment, run, run_into

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="pseudo terminals are needed"),
    pytest.mark.slow("each test runs several commands"),
]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?[34][0-9]m")
HIDING = """\
# Plan *today*

First line
second line <!-- comment words -->
<div hidden>html words</div>

[//]: # (reference words)
[label words]: http://one.example

[shown](http://two.example "title words") ![picture](http://three.example "image words")

``` sh info words
code words
```

steers \x1b[31m red &#x202E; entity
"""
WORDS = {
    "comment", "html", "reference", "label", "title", "image", "info", "code", "http://one.example", "http://two.example",
    "http://three.example", "hidden", "&#x202E;", "picture",
}  # fmt: skip
LONG = "".join(f"- line {number}\n" for number in range(300))


@pytest.fixture(name="env", scope="module")
def _env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    env = environment(Simulator(), tmp_path_factory.mktemp("shown"), NOTARIUM_STORE="local")
    assert run(env, "new", "Hiding", "--tag", "home", stdin=HIDING).returncode == 0
    assert run(env, "new", "Long", stdin=LONG).returncode == 0
    return env


def screen(env: dict[str, str], *command: str, width: int, kind: str = "xterm-256color") -> str:
    with Terminal(env, *command, width=width, kind=kind) as terminal:
        assert terminal.ends() == 0, terminal.screen
        return terminal.screen.replace("\r", "")


def test_rendering_leaves_out_no_words_and_fits_each_width(env: dict[str, str]) -> None:
    for width in (60, 80, 120):
        shown = screen(env, "show", "hiding", width=width)
        assert COLOUR.search(shown)
        plain = ESCAPES.sub("", shown)
        assert set(re.findall(r"[^\s()\"<>\[\]!]+", plain)) >= WORDS
        assert "\x1b[31m red" not in shown
        assert "\\u001b[31m red" in plain
        assert re.search(r"^First line\nsecond line ", plain, re.MULTILINE)
        assert "#home" in plain
        assert "*today*" not in plain
        assert max(map(len, plain.splitlines())) <= width
    assert not COLOUR.search(screen(env | {"NO_COLOR": "1"}, "show", "hiding", width=80))


def test_a_long_note_opens_in_the_pager_and_a_short_one_does_not(env: dict[str, str]) -> None:
    pager = Path(env["HOME"]) / "pager"
    pager.write_text("#!/bin/sh\ncat > ~/paged\necho LEFT $LESS\n")
    pager.chmod(0o700)
    env = env | {"PAGER": str(pager)}
    for kind, paged in (("xterm", True), ("", True), ("dumb", False)):
        assert ("LEFT -R" in screen(env, "show", "long", width=80, kind=kind)) == paged
    assert "line 299" in (Path(env["HOME"]) / "paged").read_text()
    assert "LEFT" not in screen(env, "show", "hiding", width=80)
    for settings in ({"PAGER": "cat"}, {"PAGER": "no-such-pager"}):
        assert "line 299" in screen(env | settings, "show", "long", width=80)


def test_a_program_gets_the_exact_bytes_and_a_terminal_is_not_steered(
    env: dict[str, str], tmp_path: Path
) -> None:
    run(env, "new", "Bare", stdin="no end\r\n\tä")
    for name, text in (("bare", "no end\r\n\tä"), ("hiding", HIDING)):
        with (tmp_path / "out").open("w+b") as out:
            code, said = run_into(out, env, "show", name, "--raw")
            out.seek(0)
            assert (code, out.read()) == (0, text.encode()), said
    raw = screen(env, "show", "--raw", "hiding", width=80)
    assert "\x1b" not in raw
    assert '[shown](http://two.example "title words")' in raw
    refused = run(env, "show", "--raw", "--json", "bare")
    assert "exclude each other" in refused.stderr
    assert json.loads(run(env, "show", "bare", "--json").stdout)["text"] == "no end\r\n\tä"
