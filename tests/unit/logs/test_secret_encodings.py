import base64
import json
import re
import time
import unicodedata
import urllib.parse

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_notarium.logs.redaction import HEAD_LENGTH, MINIMUM_LENGTH, Redactor, build_pattern
from mcp_notarium.secret import Secret

LAYERS = {
    "json": json.dumps,
    "json unescaped": lambda text: json.dumps(text, ensure_ascii=False),
    "json in list": lambda text: json.dumps([{"a": text}]),
    "repr": repr,
    "repr in dict": lambda text: repr({"a": [text, text]}),
    "ascii": ascii,
    "bytes": lambda text: repr(text.encode()),
    "quote": urllib.parse.quote,
    "quote all": lambda text: urllib.parse.quote(text, safe=""),
    "quote plus": urllib.parse.quote_plus,
    "upper": str.upper,
    "within": lambda text: f"before {text} after",
}
BLOBS = {
    "hex": lambda raw: raw.hex(),
    "hex apart": lambda raw: raw.hex(" "),
    "base64": lambda raw: base64.b64encode(raw).decode(),
    "base64 shifted": lambda raw: base64.b64encode(b"x" + raw + b"y").decode(),
    "base64 shifted twice": lambda raw: base64.b64encode(b"xx" + raw + b"z").decode(),
    "base64 url": lambda raw: base64.urlsafe_b64encode(b"\xff" + raw).decode(),
}
AWKWARD = st.sampled_from(list(" \"'\\%&<>+/=;#\n\té€Ł😀ß") + list("aZ09-_.,:"))
SECRETS = st.text(AWKWARD | st.characters(exclude_categories=["Cs"]), min_size=6, max_size=24)


def hides(secret, shown):
    redactor = Redactor(email_key=b"k").with_secret(Secret(secret))
    left = redactor.redact_line(f"<<{shown}>>")
    return "[redacted]" in left and shown not in left


@settings(deadline=None, max_examples=60)
@given(secret=SECRETS, layers=st.lists(st.sampled_from(sorted(LAYERS)), max_size=3))
@example(secret="a\"b'c\\d e", layers=["json", "bytes", "quote all"])
@example(secret="a\"b'c\\d e", layers=["quote plus", "quote all", "json"])
@example(secret="\\\\\\''\"\"", layers=["json", "json", "repr"])
def test_a_secret_is_found_under_any_three_layers_of_quoting(secret, layers):
    # Letters that change their number when raised (ß, ŉ) are another text afterwards.
    if "upper" in layers and len(secret) != len(secret.upper()):
        layers = [layer for layer in layers if layer != "upper"]
    shown = secret
    for layer in layers:
        shown = LAYERS[layer](shown)
    assert hides(secret, shown)


@settings(deadline=None, max_examples=40)
@given(secret=SECRETS, blob=st.sampled_from(sorted(BLOBS)), layer=st.sampled_from(sorted(LAYERS)))
def test_a_secret_is_found_in_hexadecimal_and_in_base64_at_any_place(secret, blob, layer):
    shown = BLOBS[blob](secret.encode())
    if layer not in {"upper", "bytes"} or blob.startswith("hex"):
        shown = LAYERS[layer](shown)
    redactor = Redactor(email_key=b"k").with_secret(Secret(secret))
    assert "[redacted]" in redactor.redact_line(shown)


@settings(max_examples=40)
@given(secret=st.binary(min_size=6, max_size=40))
def test_a_secret_of_any_bytes_gives_a_pattern_that_finds_its_hexadecimal(secret):
    pattern = re.compile(build_pattern(secret), re.IGNORECASE)
    assert pattern.search(secret.hex().upper())
    assert pattern.search(repr(secret))


@pytest.mark.parametrize("length", range(MINIMUM_LENGTH))
def test_what_is_too_short_gives_no_pattern(length):
    assert build_pattern(b"x" * length) == ""


def test_a_long_secret_is_found_when_it_was_cut():
    secret = "correct-horse-battery-staple"
    redactor = Redactor(email_key=b"k").with_secret(Secret(secret))
    for length in range(HEAD_LENGTH, len(secret)):
        assert redactor.redact_line(f"({secret[:length]} ...)") == "([redacted] ...)"


def test_a_secret_is_found_in_either_unicode_form():
    composed, apart = (unicodedata.normalize(form, "żółw-ünïcörn") for form in ("NFC", "NFD"))
    assert composed != apart
    assert hides(composed, apart)
    assert hides(apart, composed)


AWKWARD_SECRETS = [
    "'" * 12 + "x",
    "a'b'c'd'e'f",
    r"\\\\'''''\\\x",
    r"\'\'\'\'\'x",
    "%25%25%25%25z",
    "&amp;&amp;&amp;z",
    "      +++++z",
    "x27'x27'x27'z",
    "\\" * 9 + "z",
    "%5c%5c%5c%5cz",
    r"\é\é\é\éz",
    "\n\n\n\n\nz",
]


@pytest.mark.parametrize("secret", AWKWARD_SECRETS)
def test_a_hostile_line_does_not_stop_the_search(secret):
    redactor = Redactor(email_key=b"k").with_secret(Secret(secret))
    pieces = ["'", "\\", r"\'", "%255c", "%25", "&amp;#39;", "&amp;", "a'", " ", "+ ", r"\x27", "%5c",
              r"\é", r"\n"]  # fmt: skip
    started = time.process_time()
    for piece in pieces:
        redactor.redact_line(piece * 800)
    assert time.process_time() - started < 3


def test_other_text_is_left_alone():
    redactor = Redactor(email_key=b"k").with_secret(Secret("correct horse"))
    assert redactor.redact_line("correct house, horse correct") == "correct house, horse correct"
