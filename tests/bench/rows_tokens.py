"""Count the tokens of the tool list, of a listed note and of a hit, in English prose."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Figure
from bench.processes import CONSOLE, Json, Service, Speaker
from bench.site import serving
from bench.targets import ESTIMATED

_NOTES = 300
_PAGE = 20
_WORD = "python"
_BYTES_A_TOKEN = 3.5
_COUNT = """
const { encode } = require(require.resolve("gpt-tokenizer/encoding/o200k_base",
                                           { paths: [process.argv[1]] }));
const text = require("fs").readFileSync(0, "utf8");
console.log(JSON.stringify(JSON.parse(text).map((each) => encode(each).length)));
"""


def tokens(folder: Path, tokenizer: Path) -> Iterator[Figure]:
    """Rows of the tool list, and of one row of a page of twenty; ``folder`` is for the cache."""
    with Service(_NOTES, english=True) as service:
        settings = service.settings(folder)
        with serving(settings) as server:
            listed = _settled_page(server)
            found = server.call("list", query=_WORD)
        with Speaker(CONSOLE, settings) as server:
            server.greet()
            tools = server.ask("tools/list")["tools"]
    texts = {
        "tool list": json.dumps(tools, ensure_ascii=False, separators=(",", ":")),
        "a listed note": listed["content"][0]["text"],
        "a listed note: whole result": json.dumps(
            listed, ensure_ascii=False, separators=(",", ":")
        ),
        "a hit": found["content"][0]["text"],
    }
    rows = {"a listed note": listed, "a listed note: whole result": listed, "a hit": found}
    counted, unit = counts(list(texts.values()), tokenizer)
    for (row, text), number in zip(texts.items(), counted, strict=True):
        items = len(rows[row]["structuredContent"]["content"]) if row in rows else 1
        yield Figure("tokens", row, _NOTES, unit, number / items)
        size = len(text.encode()) / items
        yield Figure("tokens", f"{row}: bytes", _NOTES, "bytes", size)


def counts(texts: list[str], tokenizer: Path) -> tuple[list[float], str]:
    """Tokens of each text and their unit: o200k, or an estimate where there is no tokenizer."""
    node = shutil.which("node")
    if node is not None and (tokenizer / "node_modules" / "gpt-tokenizer").is_dir():
        done = subprocess.run(
            [node, "-e", _COUNT, str(tokenizer)],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        found: list[float] = json.loads(done.stdout)
        return found, "o200k tokens"
    return [len(text.encode()) / _BYTES_A_TOKEN for text in texts], ESTIMATED


def _settled_page(server: Speaker) -> Json:
    """A full page, when nothing is to be said of a first sync any more."""
    while True:
        page = server.call("list")
        answer = page["structuredContent"]
        if len(answer["content"]) == _PAGE and not answer.get("sync"):
            return page
        time.sleep(0.02)
