"""Test every output with every secret in every spelling: nothing of a secret leaves the process.

The search decodes what it finds (JSON, URL, HTML, base64, hexadecimal) three levels deep, and the
same run without redaction must find leaks nearly everywhere: silence alone proves nothing.
"""

import base64
import functools
import html
import json
import pickle
import re
import stat
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from mcp_notarium import logs
from mcp_notarium.cli import main as cli
from mcp_notarium.errors import StoreError
from mcp_notarium.logs import logger
from mcp_notarium.secret import Secret

CHILD = Path(__file__).with_name("redaction_child.py")
SECRETS = {
    "passphrase": "Zq7 unicorn-battery staple 9",
    "password": "pä$$\"w'Ör<d>&\\n%20\\e+/=Ł😀!",
    "raw key": "raw:" + "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2,
    "token": "c0ffee254729296a45a3885639ac7e10",
}
WINDOW = 10
"""Any so many characters of a secret, in a row, count as a leak."""


def spellings(secret):
    raw = secret.encode()
    quoted = urllib.parse.quote(secret, safe="")
    yield from (secret, secret.upper(), secret.lower(), f"before{secret}after")
    yield from (json.dumps(secret), json.dumps(secret, ensure_ascii=False))
    yield from (json.dumps(json.dumps(secret)), json.dumps(json.dumps({"a": [json.dumps(secret)]})))
    yield from (repr(secret), ascii(secret), repr(raw), repr(repr(secret)), repr([{"k": secret}]))
    yield from (quoted, urllib.parse.quote(secret), urllib.parse.quote_plus(secret))
    yield from (quoted.lower(), urllib.parse.quote(quoted, safe=""), json.dumps(quoted))
    for shift in range(3):
        shifted = b"x" * shift + raw + b"y" * (2 - shift)
        yield from (base64.b64encode(shifted).decode(), base64.urlsafe_b64encode(shifted).decode())
    yield from (raw.hex(), raw.hex().upper(), raw.hex(":"), f"x'{raw.hex()}'")
    yield from (f"Bearer {secret}", f"https://u:{quoted}@h.example/", f"password={secret}")
    yield from (f'{{"token":{json.dumps(secret)}}}', secret[:12] if len(secret) >= 16 else secret)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    @functools.cache
    def run(mode):
        file = tmp_path_factory.mktemp(mode) / "server.log"
        work = {
            "secrets": list(SECRETS.values()),
            "spellings": [form for secret in SECRETS.values() for form in spellings(secret)],
        }
        done = subprocess.run(
            [sys.executable, str(CHILD), str(file), mode],
            input=json.dumps(work).encode(),
            capture_output=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        return {"stdout": done.stdout, "stderr": done.stderr, "file": file.read_bytes()}

    return run


def by_sink(outputs):
    """What each way out produced, over stderr and the log file."""
    found = {}
    for name in ("stderr", "file"):
        for part in outputs[name].decode("utf-8", "replace").split("@@")[1:]:
            sink, _newline, text = part.partition("\n")
            found.setdefault(sink, []).extend(map(_without_time, text.splitlines()))
    return {sink: "\n".join(dict.fromkeys(lines)) for sink, lines in found.items()}


def _without_time(line):
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "", line)


def decodings(text, depth=3):
    """``text`` and what it becomes when a reader undoes one encoding after another."""
    seen = {text}
    level = {text}
    for _ in range(depth):
        level = {form for one in level for form in _decoded(one)} - seen
        seen |= level
    return seen


def _decoded(text):
    yield re.sub(
        r'\\(["\\/\'])', r"\1", re.sub(r"\\u([0-9a-f]{4})", _char, text, flags=re.IGNORECASE)
    )
    yield re.sub(r"\\x([0-9a-f]{2})", _char, text, flags=re.IGNORECASE)
    yield urllib.parse.unquote_plus(text)
    yield html.unescape(text)
    yield "\n".join(
        _unhexed(run) for run in re.findall(r"(?:[0-9a-f]{2}[: -]?){8,}", text, re.IGNORECASE)
    )
    runs = re.findall(r"[A-Za-z0-9+/_-]{12,}", text)
    yield "\n".join(_unbased(run[shift:]) for run in runs for shift in range(4))


def _char(found):
    return chr(int(found.group(1), 16))


def _unhexed(run):
    digits = re.sub(r"[^0-9a-fA-F]", "", run)
    return bytes.fromhex(digits).decode("utf-8", "replace")


def _unbased(run):
    cut = run.replace("-", "+").replace("_", "/")
    return base64.b64decode(cut[: len(cut) // 4 * 4]).decode("utf-8", "replace")


def leaks(text, depth=3):
    """The secrets of which a window stands in ``text`` in some decoding."""
    forms = "\0".join(decodings(text, depth)).casefold()
    return {
        name
        for name, secret in SECRETS.items()
        if any(
            secret[start : start + WINDOW].casefold() in forms
            for start in range(len(secret) - WINDOW + 1)
        )
    }


@pytest.mark.attack(32)
def test_no_way_out_shows_any_part_of_any_secret(run):
    outputs = run("on")
    assert outputs["stdout"] == b""
    found = {sink: leaks(text) for sink, text in by_sink(outputs).items()}
    assert len(found) >= 38
    assert {sink: names for sink, names in found.items() if names} == {}


def test_every_way_out_really_says_something_when_it_is_redacted(run):
    spoken = by_sink(run("on"))
    assert [sink for sink, text in spoken.items() if not text.strip()] == []


LAST_RESORTS = {
    "uncaught_exception": "process.crashed",
    "thread_exception": "thread.crashed",
    "finaliser_exception": "finaliser.failed",
    "loop_exception": "loop.unhandled",
    "warning": "python.warning",
}


@pytest.mark.attack(35)
def test_the_last_resorts_say_what_happened_and_no_text_of_it(run):
    spoken = by_sink(run("on"))
    for sink, event in LAST_RESORTS.items():
        assert f'"event": "{event}"' in spoken[sink], sink
        assert "Traceback" not in spoken[sink]


def test_a_secret_says_nothing_of_itself():
    secret = Secret(SECRETS["passphrase"])
    said = [
        str(secret),
        repr(secret),
        f"{secret}",
        f"{secret!r:>40}",
        repr([secret, {"k": secret}]),
    ]
    assert {name for text in said for name in leaks(text)} == set()
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_errors_of_a_command_are_redacted_also_without_logging(monkeypatch, capsys):
    """Standard error is scrubbed too while logging is configured; here it is not."""
    monkeypatch.setattr(logger.STATE, "redactor", None)
    logs.protect(*map(Secret, SECRETS.values()))
    for secret in SECRETS.values():
        cli._show(StoreError(secret, resolution_hint=secret))
    said = capsys.readouterr().err
    assert said.count("mcp-notarium:") == len(SECRETS)
    assert leaks(said) == set()


def test_every_line_of_the_log_file_is_one_json_event(run):
    for line in run("on")["file"].decode().splitlines():
        if not line.startswith("@@"):
            assert json.loads(line)["event"]


@pytest.mark.attack(32)
def test_the_same_search_finds_leaks_when_redaction_is_off(run):
    found = {sink: leaks(text, depth=1) for sink, text in by_sink(run("off")).items()}
    silent = {sink for sink, names in found.items() if names != set(SECRETS)}
    # What shows no values by its own making has nothing to leak: types and places only.
    assert len(found) - len(silent) >= 28, silent
