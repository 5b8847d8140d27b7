import json
import re
from math import inf

import pytest

from mcp_notarium.logs import redaction
from mcp_notarium.logs.redaction import REDACTED, Redactor, one_line, several_lines
from support.patterns import length_of_a_match, ways_to_match

REDACTOR = Redactor(email_key=b"k")


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("authorization: basic YWRhOnB3MTIz", "YWRhOnB3MTIz"),
        ("BEARER%20abcdef123456", "abcdef123456"),
        ("PRAGMA key = \"x'00112233445566778899aabbccddeeff'\"", "0011223344556677"),
        ("key X'00112233445566778899AABBCCDDEEFF'", "8899AABB"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl end", "eyJzdWIiOiIx"),
        ("digest 5f4dcc3b5aa765d61d8327deb882cf99 end", "5f4dcc3b"),
        ("https://ada:hunter2@example.org/x", "hunter2"),
        ("password=hunter2&x=1", "hunter2"),
        ("password: 'hunter 2'", "hunter 2"),
        ('{"token":"hunter2","n":1}', "hunter2"),
        ('{\\"api_key\\": \\"hunter2\\"}', "hunter2"),
        ("(b'X-Simperium-Token', b'hunter2')", "hunter2"),
        ("X-Simperium-Token: hunter2", "hunter2"),
        ("DB_ENCRYPTION_KEY=hunter2", "hunter2"),
        ("SIMPLENOTE_PASSWORD = hunter2", "hunter2"),
        ("from ada.lovelace+x@mail.example.org to", "lovelace"),
        ("user=ada%40example.org&", "example"),
        ("żółw@example.org", "żółw"),
        ('"mail":"ada@example.org"', "ada"),
    ],
)
def test_text_that_looks_like_a_secret_is_redacted(text, hidden):
    shown = REDACTOR.redact_text(text)
    assert hidden not in shown
    assert REDACTOR.redact_text(shown) == shown, "a second pass changes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "sync.page_committed",
        "2026-01-02T03:04:05.678901Z",
        "the token bucket is empty",
        "GET https://api.simperium.com/1/app/note/index?limit=100",
        "deadbeef",
        "user@host has no dot",
        "a @ b",
    ],
)
def test_ordinary_text_stays_as_it_is(text):
    assert REDACTOR.redact_text(text) == text


def test_one_address_has_one_name_per_key_in_any_case_and_spelling():
    one, two, three = (
        REDACTOR.redact_text(text)
        for text in ("ada@example.org", "Ada@Example.org", "ada%40example.org")
    )
    assert one == two == three
    assert one != Redactor(email_key=b"other").redact_text("ada@example.org")
    assert one != REDACTOR.redact_text("bob@example.org")


def test_a_rendered_json_line_stays_json():
    line = json.dumps(
        {"token": True, "mail": "ada@example.org", "hex": "ab" * 20, "say": 'Bearer abcdefgh"x'}
    )
    shown = json.loads(REDACTOR.redact_line(line))
    assert shown["token"] is True
    assert shown["hex"] == REDACTED


@pytest.mark.parametrize(
    "name", [name for name, it in vars(redaction).items() if isinstance(it, re.Pattern)]
)
def test_a_hostile_line_costs_no_more_than_its_length(name):
    """From each place on there are so many steps at most, however long the line is."""
    pattern = getattr(redaction, name)
    assert length_of_a_match(pattern) < 20_000
    assert ways_to_match(pattern) < 5_000


@pytest.mark.parametrize(
    ("pattern", "length", "ways"),
    [
        (r"a{1,300}b", 301, 1),
        (r"[ab]{1,300}b", 301, 300),
        (r"(?i)[a-z]{1,9}Q", 10, 9),
        (r"(?:a{1,9}\.){1,9}", 90, 1),
        (r"(?:a{1,9}){1,2}", 18, 81),
        (r"(?:ax|[ab]x){1,50}", 100, 2**50),
        (r"[^\s@]{1,64}@", 65, 1),
        (r"\w+@", inf, inf),
        (r"(a+)+b", inf, inf),
        (r"^(?P<one>x|yz)?\b[]x]{2}$", 4, 2),
        (r"(?<!\d{2})a{,3}?(?=b)", 3, 4),
        ("[\u2000-\u200f]{1,4}[\u2008-\u2010]", 5, 4),
        (r"a{x}\{{2}(?:|b\Z)", 7, 1),
    ],
)
def test_what_a_pattern_can_cost_is_read_off_it(pattern, length, ways):
    """The control: what would be too dear is seen to be."""
    assert length_of_a_match(re.compile(pattern)) == length
    assert ways_to_match(re.compile(pattern)) == ways


@pytest.mark.parametrize(
    "pattern", [r"(a)\1", "(?P<n>a)(?P=n)", "(a)?(?(1)b|c)", "(?i:a)", "(?x) a", r"\N{BULLET}"]
)
def test_a_pattern_whose_cost_cannot_be_read_off_it_is_refused(pattern):
    with pytest.raises(ValueError, match=r"read|understood"):
        length_of_a_match(re.compile(pattern))


@pytest.mark.attack(34)
@pytest.mark.parametrize(
    "char", ["\n", "\r", "\x1b", "\0", "\x85", "\u2028", "\u2029", "\u202e", "\u2066", "\u200b",
             "\ufeff", "\U000e0041", "\ud800", "\x7f", "\u00ad"]
)  # fmt: skip
def test_characters_that_forge_or_hide_are_escaped(char):
    shown = one_line(f"a{char}b")
    assert char not in shown
    assert f"{ord(char):04x}" in shown
    assert len(shown.splitlines()) == 1


def test_letters_of_every_script_and_emoji_stay():
    text = "Żółw 日本語 עברית ไทย 😀 é"
    assert one_line(text) == text


def test_text_for_a_person_keeps_its_lines():
    assert several_lines("a\n\tb\x1b[31m\r") == "a\n\tb\\u001b[31m\\u000d"
